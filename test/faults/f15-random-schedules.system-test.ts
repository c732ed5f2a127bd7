import { expect } from 'chai';
import { deletionWorkflowId, ingestWorkflowId } from '#src/contracts/workflow-ids.ts';
import { chunkListSchema } from '#src/modules/documents/chunks.schema.ts';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import type { Member } from '#test/support/client.ts';
import { expectInvariants, uploadText } from '#test/support/fault-case.ts';
import { isFullRun, note } from '#test/support/fault-run.ts';
import { type Random, runSeed, seeded } from '#test/support/seeded.ts';
import { sideBySide } from '#test/support/side-by-side.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { expectStoresMatch } from '#test/support/stores.ts';
import { until } from '#test/support/until.ts';
import { untilClosed } from '#test/support/workflow-run.ts';

const SCHEDULES = isFullRun ? 100 : 15;
const AT_A_TIME = 5;
const TIMEOUT_MS = 60_000;

const steps = [
  'parseDocument',
  'convertDocument',
  'chunkDocument',
  'embedChunks',
  'activateGeneration',
  'ingestAtOnce',
];

/** Room to meet every stage, and some steps that fail once. */
const faults = [
  ...steps.flatMap((step, at) => [
    `${step}:before:throw:${7 + at}`,
    `${step}:after_effect:throw:${11 + at}`,
    `${step}:before:delay:40`,
    `${step}:after_effect:delay:40`,
  ]),
  ...['stopIngestion', 'deleteVectors', 'deleteChunks', 'deleteOriginal', 'forgetDocument'].map(
    (step, at) => `${step}:after_effect:throw:${2 + at}`,
  ),
];

const finalStates = ['succeeded', 'failed', 'cancelled'];

describe('F15: documents that are replaced, changed, ingested again, cancelled and deleted at random moments', function () {
  this.timeout(TIMEOUT_MS * 10);
  let own: Stack;
  let ada: Member;

  before(async () => {
    own = await startStack({ NODE_ENV: 'test', FAULTS: faults.join() });
    ada = await own.signUp();
  });
  after(() => own.close());

  /** Half of them are small. */
  const text = (name: string, sentences: number) =>
    Array.from({ length: sentences }, (_, index) => `Sentence ${index} of ${name} says something.`).join(' ');

  /** Until a stage of the newest run, or for some milliseconds: whichever comes first. */
  async function wait(documentId: string, random: Random): Promise<string> {
    const stage = random.pick(['parse', 'convert', 'chunk', 'embed', 'activate']);
    const deadline = Date.now() + random.between(0, 500);
    await until('it is time', async () => {
      const job = await own.container.db('jobs').where({ documentId }).orderBy('createdAt', 'desc').first('stage');
      return job?.stage === stage || Date.now() > deadline;
    });
    return stage;
  }

  /** @returns what was done, for the one who looks into a failure, and which text has to be read at the end */
  async function runSchedule(seed: number): Promise<{ did: string[]; documentId: string; ends: 'deleted' | string }> {
    const random = seeded(seed);
    let content = text(`schedule ${seed}`, random.between(3, 140));
    const { documentId } = await uploadText(ada, content, { target_tokens: '14', overlap_tokens: '0' });
    const path = `/documents/${documentId}`;
    const did: string[] = [];

    const actions = {
      replace: async () => {
        content = text(`schedule ${seed}, version ${did.length}`, random.between(3, 140));
        await ada.upload(path, { name: 'newer.txt', content }, 200, { method: 'PATCH' });
      },
      change: async () => {
        await ada.patch(path, { target_tokens: random.between(10, 30), ingest: true }, 200);
      },
      ingest: async () => {
        await ada.post(`/rag/ingest/${documentId}`, { redo: random.next() < 0.5 }, 200);
      },
      cancel: async () => {
        const { embedding_job_id } = fullDocumentSchema.parse((await ada.get(path, 200)).body);
        const [jobId = ''] = (embedding_job_id ?? '').split('.');
        // It may be over by now.
        await ada.raw(`/jobs/${jobId}/cancel`, { method: 'POST' });
      },
    };
    for (let count = random.between(1, 4); count > 0; count -= 1) {
      const stage = await wait(documentId, random);
      const action = random.pick(['replace', 'replace', 'change', 'ingest', 'cancel'] as const);
      did.push(`${action} at ${stage}`);
      await actions[action]();
    }
    const stage = await wait(documentId, random);
    if (random.next() < 0.5) {
      did.push(`delete at ${stage}`);
      await ada.delete(path, 204);
      return { did, documentId, ends: 'deleted' };
    }
    // The last word is an ingestion, also while a run is still being cancelled.
    await ada.post(`/rag/ingest/${documentId}`, { redo: false }, 200);
    return { did, documentId, ends: content };
  }

  async function untilRest(documentId: string): Promise<void> {
    const { db } = own.container;
    const jobs: { id: string; status: string }[] = await until(`the jobs of ${documentId} are over`, async () => {
      const all = await db('jobs').where({ documentId });
      return all.every(({ status }) => finalStates.includes(status)) && all;
    });
    for (const { id } of jobs) await untilClosed(own.container, id);
  }

  async function expectNewest(documentId: string, content: string): Promise<void> {
    const document = fullDocumentSchema.parse((await ada.get(`/documents/${documentId}`, 200)).body);
    expect(document).include({ content, chunking_stale: false, embedding_stale: false });
    const { items } = chunkListSchema.parse((await ada.get(`/documents/${documentId}/chunks`, 200)).body);
    expect(items.map((chunk) => chunk.content).join('')).equal(content);
    const { generation } = await own.container.db('documents').where({ id: documentId }).first('generation');
    const job = await own.container
      .db('jobs')
      .where({ id: ingestWorkflowId(documentId, generation) })
      .first('status');
    expect(job).include({ status: 'succeeded' });
  }

  it(`${SCHEDULES} schedules: the newest is read, the deleted is gone, and the stores match`, async () => {
    const start = sideBySide(AT_A_TIME);
    const seeds = Array.from({ length: SCHEDULES }, (_, index) => runSeed * 1_000 + index);
    const runs = seeds.map((seed) =>
      start(async () => {
        const { did, documentId, ends } = await runSchedule(seed);
        try {
          await untilRest(documentId);
          if (ends !== 'deleted') return await expectNewest(documentId, ends);
          expect(await own.container.db('documents').where({ id: documentId })).deep.equal([]);
          expect(
            await own.container
              .db('jobs')
              .where({ id: deletionWorkflowId(documentId) })
              .first(),
          ).include({
            status: 'succeeded',
          });
        } catch (error) {
          throw new Error(`schedule ${seed} (${did.join(', ')}): ${documentId}`, { cause: error });
        }
      }),
    );
    for (const run of runs) await run;
    await expectInvariants(own);
    await expectStoresMatch(own);
    note(`${SCHEDULES} schedules`);
  });
});
