import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { AppError } from '#src/errors.ts';

const ATTEMPTS = 10;

/** Runs a step as a worker does: once more while the engine, which other tests keep busy, has no time for its calls. */
export async function runStep<Input, Result>(step: (input: Input) => Promise<Result>, input: Input): Promise<Result> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await stepEnvironment().run<[Input], Result, typeof step>(step, input);
    } catch (error) {
      if (attempt === ATTEMPTS || !isEngineBusy(error)) throw error;
    }
  }
}

/** What a step runs in, to be cancelled or listened to. */
export function stepEnvironment(): MockActivityEnvironment {
  return new MockActivityEnvironment({}, { logger: new DefaultLogger('ERROR') });
}

function isEngineBusy(error: unknown): boolean {
  return error instanceof AppError && error.message === 'The workflow engine does not answer.';
}
