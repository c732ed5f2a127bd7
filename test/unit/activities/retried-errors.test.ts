import type { Context } from '@temporalio/activity';
import { ApplicationFailure } from '@temporalio/common';
import { expect } from 'chai';
import { recordRetriedErrors } from '#activities/interceptors/errors.ts';

describe('errors of activities in their job', () => {
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

  it('are recorded if the activity is retried', async () => {
    expect(await noted(passing, 1, 3)).deep.equal([note]);
    expect(await noted(passing, 7)).deep.equal([note]);
  });

  it('are not recorded if the activity is not retried, because the workflow records its end', async () => {
    expect(await noted(passing, 1, 1)).deep.equal([]);
    expect(await noted(passing, 3, 3)).deep.equal([]);
    expect(await noted(ApplicationFailure.nonRetryable('Damaged.', 'corrupt_document'), 1, 3)).deep.equal([]);
    expect(await noted(new Error('cancelled'), 1, 3)).deep.equal([]);
  });
});
