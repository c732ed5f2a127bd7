import { ApplicationFailure, condition, defineUpdate, setHandler } from '@temporalio/workflow';
import { retryUpdateName, skipUpdateName } from '#src/contracts/workflow-runs.ts';
import { needsOperatorAction, type RunFailure, toRunFailure } from './failure.ts';
import { showRunParked } from './visibility.ts';

const retryUpdate = defineUpdate(retryUpdateName);
const skipUpdate = defineUpdate(skipUpdateName);

/** Runs a step; parks the run if only an operator can fix its failure, and repeats the step after each retry. */
type RunOrPark = <T>(step: () => Promise<T>) => Promise<T>;

/**
 * Lets a run park while it waits for an operator to fix a failure: the update `retry` repeats the failed step, the
 * update `skip` ends the run as failed. Earlier steps are not repeated. Call it once, at the start of a workflow.
 * @param record writes into the job that the run is parked or resumed
 */
export function createParkableStepRunner(record: {
  parked: (failure: RunFailure) => Promise<void>;
  resumed: () => Promise<void>;
}): RunOrPark {
  let state: 'going' | 'parked' | 'resuming' = 'going';
  let isSkipped = false;

  const validator = () => {
    if (state !== 'parked' || isSkipped)
      throw ApplicationFailure.nonRetryable('The run is not parked.', 'job_not_parked');
  };
  setHandler(
    retryUpdate,
    async () => {
      state = 'resuming';
      await condition(() => state !== 'resuming');
    },
    { validator, description: 'Repeat the failed step and continue. Only while the run is parked.' },
  );
  setHandler(
    skipUpdate,
    () => {
      isSkipped = true;
    },
    { validator, description: 'End the run as failed. Only while the run is parked.' },
  );

  async function park(failure: RunFailure): Promise<void> {
    state = 'parked';
    const unpark = showRunParked(failure);
    try {
      await record.parked(failure);
      await condition(() => isSkipped || state === 'resuming');
      if (isSkipped) throw skipped(failure);
      unpark();
      await record.resumed();
    } finally {
      state = 'going';
    }
  }

  return async (step) => {
    for (;;) {
      try {
        return await step();
      } catch (error) {
        const failure = needsOperatorAction(error) ? toRunFailure(error) : undefined;
        if (failure === undefined) throw error;
        await park(failure);
      }
    }
  };
}

function skipped({ code, message }: RunFailure): ApplicationFailure {
  return ApplicationFailure.nonRetryable(
    `Skipped by an operator. The run was parked with ${code}: ${message}`,
    'skipped',
  );
}
