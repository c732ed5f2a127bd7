import type { FaultCase } from './fault-case.ts';
import { until } from './until.ts';
import { type JobView, untilJob } from './until-job.ts';

/** A way through the service: what a user does, whichever process dies meanwhile. */
export type Scenario = {
  settings?: Record<string, string>;
  /** Faults that lead to the steps of the scenario. */
  faults?: string;
  /** @returns the last job, and the document that can be read at the end */
  drive(own: FaultCase): Promise<{ jobId: string; documentId: string | null }>;
};

type Check = (own: FaultCase, jobId: string) => Promise<unknown>;
const noCheck: Check = async () => undefined;

export const untilStage = ({ member }: FaultCase, jobId: string, stage: string) =>
  until(`${jobId} is in ${stage}`, async () => {
    return ((await member.get(`/jobs/${jobId}`, 200)).body as JobView).stage === stage;
  });

/** Retries the job whenever it is parked or has failed; a worker may die of this very call. */
export const retryUntilDone: Check = ({ member }, jobId) =>
  until(`${jobId} succeeds`, async () => {
    const { status } = (await member.get(`/jobs/${jobId}`, 200)).body as JobView;
    if (['parked', 'failed'].includes(status)) await member.raw(`/jobs/${jobId}/retry`, { method: 'POST' });
    return status === 'succeeded';
  });

/**
 * The four ends of a job.
 * @param begin starts the job and returns its id
 */
export function endsOf(begin: (own: FaultCase) => Promise<string>, settings: Record<string, string> = {}) {
  const scenario = (faults: string | undefined, check: Check, drive: Check): Scenario => ({
    settings,
    ...(faults !== undefined && { faults }),
    drive: async (own) => {
      const jobId = await begin(own);
      await drive(own, jobId);
      await check(own, jobId);
      return { documentId: null, jobId };
    },
  });
  return {
    succeeds: (check = noCheck) => scenario(undefined, check, (own, jobId) => untilJob(own.member, jobId, 'succeeded')),
    isParked: (faults: string, check = noCheck) => scenario(faults, check, retryUntilDone),
    fails: (faults: string, check = noCheck) =>
      scenario(faults, check, async (own, jobId) => {
        await untilJob(own.member, jobId, 'failed');
        await retryUntilDone(own, jobId);
      }),
    isCancelled: (faults: string, stage: string, check = noCheck) =>
      scenario(faults, check, async (own, jobId) => {
        await untilStage(own, jobId, stage);
        await own.stack.container.orchestrator.cancel(jobId);
        await untilJob(own.member, jobId, 'cancelled');
      }),
  };
}
