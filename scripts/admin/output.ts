import { StartFailure } from '../supervisor/start-failure.ts';
import type { Command, CommandOutput } from './command.ts';

/** Reports failed writes, because the output may be the only copy of a password. */
export function openOutput(stream: NodeJS.WritableStream): Pick<CommandOutput, 'print' | 'written'> {
  let failure: Error | null = null;
  let last: Promise<void> = Promise.resolve();
  stream.on('error', () => undefined);
  return {
    print: (line) => {
      last = new Promise((resolve) => {
        stream.write(`${line}\n`, (error) => {
          failure ??= error ?? null;
          resolve();
        });
      });
    },
    written: async () => {
      await last;
      if (failure !== null)
        throw new StartFailure(`The output of the command could not be written: ${failure.message}`);
    },
  };
}

export function alignColumns(rows: readonly (readonly string[])[]): string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows.map((row) =>
    row
      .map((word, column) => word.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  );
}

const RUN = 'npm run admin --';

export function commandOverview(commands: ReadonlyMap<string, Command>): string {
  const entries = [...commands].flatMap(([name, { usage, description }]) => [
    `  ${`${name} ${usage}`.trimEnd()}`,
    `      ${description}`,
  ]);
  return [`Usage: ${RUN} <command>; ${RUN} <command> --help shows examples`, '', ...entries].join('\n');
}

export function commandHelp(name: string, { usage, description, examples }: Command): string {
  const lines = alignColumns(examples.map(([args, meaning]) => [`  ${RUN} ${`${name} ${args}`.trimEnd()}`, meaning]));
  return [`${RUN} ${name} ${usage}`.trimEnd(), '', `It ${description}.`, '', ...lines].join('\n');
}

export function errorReason(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { cause } = error;
  if (cause instanceof Error) return errorReason(cause);
  const [first] = error instanceof AggregateError ? error.errors : [];
  const message = error.message || (first instanceof Error ? first.message : error.name);
  return message.split('\n')[0] ?? '';
}
