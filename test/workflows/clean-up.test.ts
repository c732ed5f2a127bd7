import { expect } from 'chai';
import { dailySweeps, hourlySweeps } from '#src/contracts/clean-up.ts';
import { appError } from '#src/errors.ts';
import { stubActivities } from '#test/support/stub-activities.ts';
import { startRun } from '#test/support/test-workers.ts';
import { attributeOf, failureOf } from '#test/support/workflow-run.ts';

describe('cleanUp', () => {
  it('runs each sweep, and results in the number of rows that each removed', async () => {
    const stub = stubActivities({ runSweep: async ({ sweep }) => sweep.length });
    const run = await startRun('cleanUp', stub, { sweeps: hourlySweeps });
    expect(await run.result()).deep.equal(Object.fromEntries(hourlySweeps.map((sweep) => [sweep, sweep.length])));
  });

  it('runs the other sweeps even if one fails, and then fails with its name and with what the others removed', async () => {
    const stub = stubActivities({
      runSweep: async ({ sweep }) => {
        if (sweep === 'forget old imports') throw appError('not_found', { detail: 'No.' });
        return 1;
      },
    });
    const run = await startRun('cleanUp', stub, { sweeps: dailySweeps });
    expect(await failureOf(run))
      .include({ message: 'Some sweeps failed. forget old imports: No.' })
      .nested.property('details[0].maintain the vector store', 1);
    expect(await attributeOf(run, 'ErrorCode')).equal('not_found');
    expect(stub.timesOf('runSweep')).equal(dailySweeps.length);
  });
});
