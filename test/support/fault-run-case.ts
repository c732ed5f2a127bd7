import { expect } from 'chai';
import { contentDigest } from './content-digest.ts';
import { expectInvariants, startFaultCase } from './fault-case.ts';
import type { Case } from './fault-scenarios.ts';
import { embeddedTexts } from './scripted-model.ts';
import { until } from './until.ts';
import { untilClosed } from './workflow-run.ts';

export type Outcome = { digest: string | null; texts: string[]; slowestResumeMs: number };

/** Drives a scenario while its worker dies at each of these points in turn, and another takes its place at once. */
export async function runCase({ step, scenario, queues }: Case, deaths: readonly string[]): Promise<Outcome> {
  const own = await startFaultCase(scenario.settings);
  try {
    const { db } = own.stack.container;
    const startWorker = (death?: string) => {
      const faults = death === undefined ? [] : [`${step}:${death}:kill`, scenario.faults ?? []].flat();
      return own.startWorker({ NODE_ENV: 'test', WORKER_QUEUES: queues, FAULTS: faults.join(',') });
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
    dying.catch(() => undefined);

    const { jobId, documentId } = await scenario.drive(own);
    await untilClosed(own.stack.container, jobId);
    const endMs = performance.now();
    await until(`${step} is reached ${deaths.length} times`, async () => moments.length === deaths.length);
    await dying;
    await expectInvariants(own.stack);
    const gaps = [...moments, endMs].map((moment, index, all) => moment - (all[index - 1] ?? moment));
    return {
      digest: documentId === null ? null : await contentDigest(db, documentId),
      texts: embeddedTexts(own.model),
      slowestResumeMs: Math.max(...gaps),
    };
  } finally {
    await own.close();
  }
}
