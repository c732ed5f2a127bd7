import { expect } from 'chai';
import { contentDigest } from '#test/support/content-digest.ts';
import { expectInvariants, type FaultCase, startFaultCase } from '#test/support/fault-case.ts';
import { embeddedTexts } from '#test/support/scripted-model.ts';
import { until } from '#test/support/until.ts';
import { type JobView, untilJob } from '#test/support/until-job.ts';
import { untilClosed } from '#test/support/workflow-run.ts';

/** A way through the service: what a user does, whichever process dies meanwhile. */
export type Scenario = {
  settings?: Record<string, string>;
  /** Faults that lead to the steps of the scenario. */
  faults?: string;
  /** @returns the last job, and the document whose content is compared with that of an undisturbed run, if any */
  drive(own: FaultCase): Promise<{ jobId: string; documentId?: string }>;
};

/** @property queues that the scenario's worker polls; a worker of all queues takes seconds of a core to start */
export type Case = { step: string; scenario: Scenario; queues: string };

type Check = (own: FaultCase, jobId: string) => Promise<unknown>;
const noCheck: Check = async () => undefined;

const readJob = async ({ member }: FaultCase, jobId: string) =>
  (await member.get(`/jobs/${jobId}`, 200)).body as JobView;

/** Retries the job whenever it is parked or has failed; a worker may die of this very call. */
export const retryUntilDone: Check = (own, jobId) =>
  until(`${jobId} succeeds`, async () => {
    const { status } = await readJob(own, jobId);
    if (['parked', 'failed'].includes(status)) await own.member.raw(`/jobs/${jobId}/retry`, { method: 'POST' });
    return status === 'succeeded';
  });

export async function cancel({ member, stack }: FaultCase, jobId: string): Promise<void> {
  await stack.container.orchestrator.cancel(jobId);
  await untilJob(member, jobId, 'cancelled');
}

/**
 * The four ends of a job.
 * @param begin starts the job and returns its id
 */
export function endsOf(begin: (own: FaultCase) => Promise<string>, settings: Record<string, string> = {}) {
  const scenario = (end: Check, check: Check, faults?: string): Scenario => ({
    settings,
    ...(faults !== undefined && { faults }),
    drive: async (own) => {
      const jobId = await begin(own);
      await end(own, jobId);
      await check(own, jobId);
      return { jobId };
    },
  });
  return {
    succeeds: (check = noCheck) => scenario(({ member }, jobId) => untilJob(member, jobId, 'succeeded'), check),
    isParked: (faults: string, check = noCheck) => scenario(retryUntilDone, check, faults),
    fails: (faults: string, check = noCheck) => {
      const failAndRetry: Check = async (own, jobId) => {
        await untilJob(own.member, jobId, 'failed');
        await retryUntilDone(own, jobId);
      };
      return scenario(failAndRetry, check, faults);
    },
    isCancelled: (faults: string, stage: string, check = noCheck) => {
      const cancelInStage: Check = async (own, jobId) => {
        await until(`${jobId} is in ${stage}`, async () => (await readJob(own, jobId)).stage === stage);
        await cancel(own, jobId);
      };
      return scenario(cancelInStage, check, faults);
    },
  };
}

export type Outcome = { digest: string | null; texts: string[]; slowestResumeMs: number };

/** Drives a scenario while its worker dies at each of these points in turn, and another takes its place at once. */
export async function runCase({ step, scenario, queues }: Case, deaths: readonly string[]): Promise<Outcome> {
  const own = await startFaultCase(scenario.settings);
  try {
    const startWorker = (death?: string) => {
      const faults = death === undefined ? [] : [`${step}:${death}:kill`, scenario.faults ?? []].flat();
      return own.startWorker({ NODE_ENV: 'test', WORKER_QUEUES: `workflows,${queues}`, FAULTS: faults.join(',') });
    };
    const moments: number[] = [];
    let worker = await startWorker(deaths[0]);
    const dying = (async () => {
      for (const index of deaths.keys()) {
        expect(await worker.ended).equal('SIGKILL');
        moments.push(performance.now());
        worker = await startWorker(deaths[index + 1]);
      }
    })();
    const driven = scenario.drive(own).then(async (ended) => {
      await untilClosed(own.stack.container, ended.jobId);
      return { ...ended, endMs: performance.now() };
    });
    const [{ documentId, endMs }] = await Promise.all([driven, dying]);
    await expectInvariants(own.stack);
    const gaps = [...moments, endMs].map((moment, index, all) => moment - (all[index - 1] ?? moment));
    return {
      digest: documentId === undefined ? null : await contentDigest(own.stack.container.db, documentId),
      texts: embeddedTexts(own.model),
      slowestResumeMs: Math.max(...gaps),
    };
  } finally {
    await own.close();
  }
}
