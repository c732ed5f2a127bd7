import { AppError } from '#src/errors.ts';

export function sendToParentProcess(message: unknown): void {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}

/** Reports an AppError by its code and any other error as `corrupt_document` with the detail `fallbackDetail`. */
export function sendFailureToParentProcess(error: unknown, fallbackDetail: string): void {
  process.stderr.write(`${error}\n`);
  if (error instanceof AppError) sendToParentProcess({ error: error.code, detail: error.message });
  else sendToParentProcess({ error: 'corrupt_document', detail: fallbackDetail });
}
