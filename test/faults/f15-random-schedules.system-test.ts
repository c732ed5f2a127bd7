import { expect } from 'chai';
import { deletionWorkflowId, ingestWorkflowId } from '#src/contracts/workflow-ids.ts';
import { chunkListSchema } from '#src/modules/documents/chunks.schema.ts';
import { readDocument, replaceOriginal } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { expectInvariants, uploadText } from '#test/support/fault-case.ts';
import { isFullRun, note } from '#test/support/fault-run.ts';
import { sentences } from '#test/support/ingestion-steps.ts';
import { type Random, runSeed, seeded } from '#test/support/seeded.ts';
import { sideBySide } from '#test/support/side-by-side.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { expectStoresMatch } from '#test/support/stores.ts';
import { until } from '#test/support/until.ts';
import { untilClosed } from '#test/support/workflow-run.ts';

const SCHEDULES = isFullRun ? 100 : 15;
const AT_A_TIME = 5;

const ingestion = [
  'parseDocument',
  'convertDocument',
  'chunkDocument',
  'embedChunks',
  'activateGeneration',
  'ingestAtOnce',
];
const deletion = ['stopIngestion', 'deleteVectors', 'deleteChunks', 'deleteOriginal', 'forgetDocument'];
/** Delays to meet every stage, and some steps that fail once. */
const faults = [
  ...ingestion.flatMap((step, at) =>
    [`before:throw:${7 + at}`, `after_effect:throw:${11 + at}`].map((fault) => `${step}:${fault}`),
  ),
  ...ingestion.flatMap((step) => [`${step}:before:delay:40`, `${step}:after_effect:delay:40`]),
  ...deletion.map((step, at) => `${step}:after_effect:throw:${2 + at}`),
];

describe('F15: documents that are replaced, changed, ingested again, cancelled and deleted at random moments', function () {
  this.timeout(600_000);
  let own: Stack;
  let ada: Member;

  before(async () => {
    own = await startStack({ NODE_ENV: 'test', FAULTS: faults.join() });
    ada = await own.signUp();
  });
  after(() => own.close());

  const jobs = () => own.container.db('jobs');
  /** Half of them are small. */
  const text = (name: string, random: Random) => sentences(random.between(3, 140), `of ${name}`);

  /** Waits until a stage of the newest run, or for some milliseconds: whichever comes first. */
  async function wait(documentId: string, random: Random): Promise<string> {
    const stage = random.pick(['parse', 'convert', 'chunk', 'embed', 'activate']);
    const deadline = Date.now() + random.between(0, 500);
    await until('it is time', async () => {
      const job = await jobs().where({ documentId }).orderBy('createdAt', 'desc').first('stage');
      return job?.stage === stage || Date.now() > deadline;
    });
    return stage;
  }

  /** @returns what was done, for the error of a failure, and the text that has to be read at the end, if any */
  async function runSchedule(seed: number): Promise<{ did: string[]; documentId: string; content: string | null }> {
    const random = seeded(seed);
    let content = text(`schedule ${seed}`, random);
    const { documentId } = await uploadText(ada, content, { target_tokens: '14', overlap_tokens: '0' });
    const path = `/documents/${documentId}`;
    const did: string[] = [];
    const actions = {
      replace: () => {
        content = text(`schedule ${seed}, version ${did.length}`, random);
        return replaceOriginal(ada, documentId, { name: 'newer.txt', content });
      },
      change: () => ada.patch(path, { target_tokens: random.between(10, 30), ingest: true }, 200),
      ingest: () => ada.post(`/rag/ingest/${documentId}`, { redo: random.next() < 0.5 }, 200),
      cancel: async () => {
        const { embedding_job_id } = await readDocument(ada, documentId);
        // It may be over by now.
        await ada.raw(`/jobs/${(embedding_job_id ?? '').split('.')[0]}/cancel`, { method: 'POST' });
      },
    };
    for (let count = random.between(1, 4); count > 0; count -= 1) {
      const stage = await wait(documentId, random);
      const action = random.pick(['replace', 'replace', 'change', 'ingest', 'cancel'] as const);
      did.push(`${action} at ${stage}`);
      await actions[action]();
    }
    did.push(`last at ${await wait(documentId, random)}`);
    if (random.next() < 0.5) {
      await ada.delete(path, 204);
      return { did, documentId, content: null };
    }
    // The last request is an ingestion, also while a run is still being cancelled.
    await ada.post(`/rag/ingest/${documentId}`, { redo: false }, 200);
    return { did, documentId, content };
  }

  async function expectEnd({ documentId, content }: { documentId: string; content: string | null }): Promise<void> {
    const ended: { id: string }[] = await until(`the jobs of ${documentId} are over`, async () => {
      const all = await jobs().where({ documentId });
      return all.every(({ status }) => ['succeeded', 'failed', 'cancelled'].includes(status)) && all;
    });
    for (const { id } of ended) await untilClosed(own.container, id);
    const row = await own.container.db('documents').where({ id: documentId }).first('generation');
    const last = content === null ? deletionWorkflowId(documentId) : ingestWorkflowId(documentId, row.generation);
    expect(await jobs().where({ id: last }).first('status')).include({ status: 'succeeded' });
    if (content === null) {
      expect(row).equal(undefined);
      return;
    }
    const whole = { content, chunking_stale: false, embedding_stale: false };
    expect(await readDocument(ada, documentId)).include(whole);
    const { items } = chunkListSchema.parse((await ada.get(`/documents/${documentId}/chunks`, 200)).body);
    expect(items.map((chunk) => chunk.content).join('')).equal(content);
  }

  it(`show their newest content or are gone, and leave matching stores, in ${SCHEDULES} random schedules`, async () => {
    const start = sideBySide(AT_A_TIME);
    const runs = Array.from({ length: SCHEDULES }, (_, index) =>
      start(async () => {
        const seed = runSeed * 1_000 + index;
        const schedule = await runSchedule(seed);
        await expectEnd(schedule).catch((cause: unknown) => {
          throw new Error(`schedule ${seed} (${schedule.did.join(', ')}): ${schedule.documentId}`, { cause });
        });
      }),
    );
    for (const run of runs) await run;
    await expectInvariants(own);
    await expectStoresMatch(own);
    note(`${SCHEDULES} schedules`);
  });
});
