import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'chai';
import type { ServiceProcess } from '#test/support/child-processes.ts';
import { contentDigest } from '#test/support/content-digest.ts';
import { expectInvariants, type FaultCase, startFaultCase, uploadText } from '#test/support/fault-case.ts';
import { measured, note } from '#test/support/fault-run.ts';
import { embeddedTexts } from '#test/support/scripted-model.ts';
import { runSeed, seeded } from '#test/support/seeded.ts';
import { expectStoresMatch } from '#test/support/stores.ts';
import { until } from '#test/support/until.ts';
import { buildWorkflowBundle } from '#workers/bundle.ts';

const DOCUMENTS = 50;
const KILL_INTERVAL_MS = 3_000;
const LEAST_KILLS = 10;
const TIMEOUT_MS = 15 * 60_000;
const chunking = { target_tokens: '40', overlap_tokens: '0' };

/** Two workers are the smallest deployment in which one may die without the work standing still. */
const WORKERS = 2;

type Outcome = { digests: string[]; texts: number; timeMs: number };

describe('F2: workers that are killed every three seconds, in turn', function () {
  this.timeout(TIMEOUT_MS * 2);
  const random = seeded(runSeed);
  const contents = Array.from({ length: DOCUMENTS }, (_, document) =>
    Array.from(
      { length: random.between(900, 1_100) },
      (_, index) => `Sentence ${index} of document ${document} is about the number ${random.between(1, 9_999)}.`,
    ).join(' '),
  );
  before(() => buildWorkflowBundle());

  async function ingestAll(own: FaultCase): Promise<Outcome> {
    const { db } = own.stack.container;
    const beganMs = performance.now();
    const documentIds: string[] = [];
    for (const content of contents) documentIds.push((await uploadText(own.member, content, chunking)).documentId);
    await until('every document is ingested', async () => {
      const [row] = await db('jobs').where({ status: 'succeeded' }).count({ count: '*' });
      await delay(100);
      return Number(row?.count) === DOCUMENTS;
    });
    const timeMs = performance.now() - beganMs;
    await expectInvariants(own.stack);
    await expectStoresMatch(own.stack);
    const digests = [];
    for (const documentId of documentIds) digests.push(await contentDigest(db, documentId));
    return { digests, texts: embeddedTexts(own.model).length, timeMs };
  }

  async function withWorkers<T>(work: (own: FaultCase, workers: ServiceProcess[]) => Promise<T>): Promise<T> {
    const own = await startFaultCase();
    try {
      const workers = await Promise.all(Array.from({ length: WORKERS }, () => own.startWorker()));
      return await work(own, workers);
    } finally {
      await own.close();
    }
  }

  /** Kills one worker after another until it is told to stop. @returns the kills, and what they may have cost */
  async function killInTurn(own: FaultCase, workers: ServiceProcess[], over: AbortSignal) {
    const { db } = own.stack.container;
    let kills = 0;
    let inFlight = 0;
    while (!over.aborted) {
      await delay(KILL_INTERVAL_MS, undefined, { signal: over }).catch(() => undefined);
      if (over.aborted) break;
      await workers[kills % WORKERS]?.kill();
      const asked = new Set(embeddedTexts(own.model)).size;
      inFlight += asked - Number((await db('embeddings').count({ count: '*' }).first())?.count);
      workers[kills % WORKERS] = await own.startWorker();
      kills += 1;
    }
    return { kills, inFlight };
  }

  it('all documents are complete as if nothing had happened, and only what was in flight is asked for again', async () => {
    const undisturbed = await withWorkers(ingestAll);
    const { outcome, kills, inFlight } = await withWorkers(async (own, workers) => {
      const over = new AbortController();
      const killing = killInTurn(own, workers, over.signal);
      killing.catch(() => undefined);
      const ended = await ingestAll(own);
      over.abort();
      return { outcome: ended, ...(await killing) };
    });
    const repeated = outcome.texts - undisturbed.texts;
    note(`${DOCUMENTS} documents, ${undisturbed.texts} texts, ${kills} kills, ${repeated} texts repeated`);
    note(`undisturbed ${(undisturbed.timeMs / 1_000).toFixed(1)} s`);
    expect(outcome.digests).deep.equal(undisturbed.digests);
    expect(kills, 'kills').least(LEAST_KILLS);
    expect(repeated, 'texts that were asked for again').at.most(inFlight);
    measured('with kills', outcome.timeMs, 3 * undisturbed.timeMs);
  });
});
