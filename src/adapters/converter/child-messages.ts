import { AppError } from '#src/errors.ts';

/** Tells whoever has started this parser process, in a line of JSON. */
export function say(message: unknown): void {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}

/** Why nothing came of the file; `otherwise` where that is not known. */
export function sayFailure(error: unknown, otherwise: string): void {
  process.stderr.write(`${error}\n`);
  if (error instanceof AppError) say({ error: error.code, detail: error.message });
  else say({ error: 'corrupt_document', detail: otherwise });
}
