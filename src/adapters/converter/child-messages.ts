import { AppError } from '#src/errors.ts';

export function sendToParent(message: unknown): void {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}

/** Reports an AppError by its code and any other error as `corrupt_document` with the detail `fallbackDetail`. */
export function sendFailureToParent(error: unknown, fallbackDetail: string): void {
  process.stderr.write(`${error}\n`);
  if (error instanceof AppError) sendToParent({ error: error.code, detail: error.message });
  else sendToParent({ error: 'corrupt_document', detail: fallbackDetail });
}
