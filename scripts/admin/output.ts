import { StartFailure } from '../supervisor/start-failure.ts';
import type { Say } from './command.ts';

/** Where a command's answers go; they may be all that there is of a password. */
export function openOutput(stream: NodeJS.WritableStream): Pick<Say, 'print' | 'written'> {
  let failure: Error | null = null;
  let last: Promise<void> = Promise.resolve();
  // Its callback has the same error.
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
      if (failure !== null) throw new StartFailure(`What it says could not be written: ${failure.message}`);
    },
  };
}
