import { ApplicationFailure, condition, defineUpdate, patched, setHandler } from '@temporalio/workflow';
import { retryUpdateName, skipUpdateName } from '#src/contracts/workflow-runs.ts';
import { type Failure, failureOf, needsPerson } from './failure.ts';
import { showParked } from './visibility.ts';

const retryUpdate = defineUpdate(retryUpdateName);
const skipUpdate = defineUpdate(skipUpdateName);

/** Runs one step of a workflow, again and again if it must be. */
export type OrPark = <T>(step: () => Promise<T>) => Promise<T>;

/**
 * Lets a run wait for a person where only a person helps: the step that failed runs again on the update `retry`, and
 * the run fails on `skip`. What was done before stays done. To be called once, at the start of a workflow.
 * @param record writes into the run's job that it waits, and that it goes on
 */
export function parking(record: { parked: (failure: Failure) => Promise<void>; resumed: () => Promise<void> }): OrPark {
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
    { validator, description: 'Go on with the step that failed. Only while the run is parked.' },
  );
  setHandler(
    skipUpdate,
    () => {
      isSkipped = true;
    },
    { validator, description: 'End the run as failed. Only while it is parked.' },
  );

  async function park(failure: Failure): Promise<void> {
    state = 'parked';
    const unpark = showParked(failure);
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
        const failure = needsPerson(error) ? failureOf(error) : undefined;
        // Runs that failed here before there was parking go on to record it.
        if (failure === undefined || !patched('parking')) throw error;
        await park(failure);
      }
    }
  };
}

function skipped({ code, message }: Failure): ApplicationFailure {
  return ApplicationFailure.nonRetryable(`It was parked with ${code}: ${message}`, 'skipped');
}
