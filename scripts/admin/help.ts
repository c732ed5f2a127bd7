import { columns } from './columns.ts';
import type { Command } from './command.ts';

const RUN = 'npm run admin --';

export function overview(commands: ReadonlyMap<string, Command>): string {
  const entries = [...commands].flatMap(([name, { takes, does }]) => [
    `  ${`${name} ${takes}`.trimEnd()}`,
    `      ${does}`,
  ]);
  return [`Use: ${RUN} <command>; ${RUN} <command> --help shows examples`, '', ...entries].join('\n');
}

export function helpOf(name: string, { takes, does, examples }: Command): string {
  const lines = columns(examples.map(([args, meaning]) => [`  ${RUN} ${`${name} ${args}`.trimEnd()}`, meaning]));
  return [`${RUN} ${name} ${takes}`.trimEnd(), '', `It ${does}.`, '', ...lines].join('\n');
}
