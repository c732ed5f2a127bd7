import { createInterface } from 'node:readline';

/** Lines that another program or a file gives the demo as its input. */
export type PipedQuestions = {
  /** Takes the lines that have come so far. */
  takeAll(): string[];
  /** Returns the next line; null once the input has ended. */
  next(): Promise<string | null>;
  hadLines(): boolean;
};

/** Reads the input from now on, so that no line is lost while the service starts. */
export function readPipedQuestions(input: NodeJS.ReadableStream): PipedQuestions {
  const waiting: string[] = [];
  let hasEnded = false;
  let hadLines = false;
  let wake = () => {};
  const lines = createInterface({ input });
  lines.on('line', (line) => {
    if (line.trim() === '') return;
    hadLines = true;
    waiting.push(line.trim());
    wake();
  });
  lines.on('close', () => {
    hasEnded = true;
    wake();
  });
  return {
    hadLines: () => hadLines,
    takeAll: () => waiting.splice(0),
    async next() {
      while (waiting.length === 0 && !hasEnded) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
      return waiting.shift() ?? null;
    },
  };
}
