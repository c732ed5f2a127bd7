import type { Context } from '@temporalio/activity';
import { ApplicationFailure } from '@temporalio/common';
import { expect } from 'chai';
import { recordRetriedErrors } from '#activities/interceptors/errors.ts';

describe('errors of activities', () => {
  async function noted(failure: unknown, attempt: number, maximumAttempts?: number): Promise<unknown[]> {
    const notes: unknown[] = [];
    const info = {
      workflowExecution: { workflowId: 'ingest-1-1', runId: 'run' },
      attempt,
      ...(maximumAttempts !== undefined && { retryPolicy: { maximumAttempts } }),
    };
    const recordRetriedError = async (jobId: string, fault: unknown) => void notes.push([jobId, fault]);
    const interceptors = recordRetriedErrors({ recordRetriedError })({ info } as Context);
    const step = async () => {
      throw failure;
    };
    const thrown = await interceptors.inbound?.execute?.({ args: [], headers: {} }, step).catch((error) => error);
    expect(thrown).equal(failure);
    return notes;
  }

  const passing = ApplicationFailure.create({ type: 'model_unavailable', message: 'It is away.' });
  const note = ['ingest-1-1', { code: 'model_unavailable', message: 'It is away.' }];

  it('are recorded in the job if the activity is retried; otherwise the workflow records the failure', async () => {
    const damaged = ApplicationFailure.nonRetryable('Damaged.', 'corrupt_document');
    for (const [failure, attempt, maximumAttempts, expected] of [
      [passing, 1, 3, [note]],
      [passing, 7, undefined, [note]],
      [passing, 1, 1, []],
      [passing, 3, 3, []],
      [damaged, 1, 3, []],
      [new Error('cancelled'), 1, 3, []],
    ] as const) {
      expect(await noted(failure, attempt, maximumAttempts)).deep.equal(expected);
    }
  });
});
