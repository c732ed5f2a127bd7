import { type ParseArgsOptionsConfig, parseArgs } from 'node:util';
import type { Container } from '#src/container.ts';

/** Where answers go, and where what is said beside them. */
export type Say = {
  print: (line: string) => void;
  /** Settles when all that was printed is out; throws StartFailure when some of it is lost. */
  written: () => Promise<void>;
  note: (line: string) => void;
};

/** @returns whether what was asked for is so now, or all is well */
export type Task = (container: Container, say: Say) => Promise<boolean>;

/** What `npm run admin -- <name>` does. */
export type Command = {
  /** What may stand behind its name. */
  takes: string;
  does: string;
  /** Behind its name, each with a word about it. */
  examples: readonly (readonly [args: string, meaning: string])[];
  /** What the arguments ask for; in words, what is wrong with them. */
  read: (args: readonly string[]) => Task | { wrong: string };
};

/** For a command that takes nothing. */
export function alone(task: Task): Command['read'] {
  return (args) => (args.length === 0 ? task : { wrong: `"${args.join(' ')}" is not understood` });
}

/** Tells flags from what stands between them. */
export function readFlags<const Options extends ParseArgsOptionsConfig>(args: readonly string[], options: Options) {
  try {
    return parseArgs({ args: [...args], options, allowPositionals: true });
  } catch (error) {
    // What follows its first sentence is about arguments that begin with a dash.
    return { wrong: error instanceof Error ? (error.message.split('. ')[0] ?? '') : String(error) };
  }
}
