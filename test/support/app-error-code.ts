import { AppError } from '#src/errors.ts';

/** The code that the work failed with; what is no AppError is thrown on. */
export async function appErrorCode(work: Promise<unknown>): Promise<string> {
  try {
    await work;
  } catch (error) {
    if (error instanceof AppError) return error.code;
    throw error;
  }
  throw new Error('It did not fail.');
}
