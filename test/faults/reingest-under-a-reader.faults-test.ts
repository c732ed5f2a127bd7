import { expect } from 'chai';
import { createTextAnalyzer } from '#src/adapters/text/text-analyzer.ts';
import { createPgVectorStore } from '#src/adapters/vectors/pgvector.ts';
import { ingestWorkflowId } from '#src/contracts/workflow-ids.ts';
import { contentStems } from '#src/domain/text/words.ts';
import { chunkListSchema } from '#src/modules/documents/chunks.schema.ts';
import { deriveChunkId } from '#src/modules/ingestion/ingestion.service.ts';
import { createWordSearchRepository } from '#src/modules/retrieval/word-search.repository.ts';
import { expectInvariants, type FaultCase, startFaultCase, uploadText } from '#test/support/fault-case.ts';
import { note } from '#test/support/fault-run.ts';
import { runSeed, seeded } from '#test/support/seeded.ts';
import { expectStoresMatch } from '#test/support/stores.ts';
import { untilJob } from '#test/support/until-job.ts';

const INGESTIONS = 100;
const TIMEOUT_MS = 60_000;
const MOST_CHUNKS = 140;

const steps = [
  'parseDocument',
  'convertDocument',
  'chunkDocument',
  'embedChunks',
  'activateGeneration',
  'ingestAtOnce',
] as const;
const positions = ['before', 'after_effect'] as const;

describe('a document that is ingested again and again while steps fail and workers die', function () {
  this.timeout(TIMEOUT_MS * INGESTIONS);
  const random = seeded(runSeed);
  let own: FaultCase;
  let isOver = false;
  let deaths = 0;

  before(async () => {
    own = await startFaultCase();
  });
  after(async () => {
    isOver = true;
    await own.close();
  });

  /** Starts a worker that fails now and then and dies after some ingestions, and another one when it does. */
  async function keepWorking(): Promise<void> {
    const faults = [
      `${random.pick(steps)}:${random.pick(positions)}:kill:${random.between(5, 9)}`,
      ...steps.map((step) => `${step}:${random.pick(positions)}:throw:${random.between(1, 9)}`),
    ];
    const worker = await own.startWorker({ NODE_ENV: 'test', FAULTS: faults.join() });
    void worker.ended.then(async () => {
      if (isOver) return;
      deaths += 1;
      await keepWorking();
    });
  }

  const text = (version: number) =>
    Array.from(
      { length: random.between(3, MOST_CHUNKS) },
      (_, index) => `Sentence ${index} of version ${version} says something.`,
    ).join(' ');

  it(`${INGESTIONS} times: its readers never see nothing, a mixture or something twice`, async () => {
    const { container } = own.stack;
    const { member } = own;
    await keepWorking();
    const fields = { target_tokens: '14', overlap_tokens: '0' };
    const { documentId, jobId } = await uploadText(member, text(1), fields);
    await untilJob(member, jobId, 'succeeded');

    /** Which generation a chunk is of, and its place there: its id follows from both. */
    const placeOf = new Map<string, { generation: number; index: number }>();
    for (let generation = 1; generation <= INGESTIONS + 1; generation += 1) {
      for (let index = 0; index < MOST_CHUNKS * 2; index += 1) {
        placeOf.set(deriveChunkId({ orgId: member.orgId, documentId, generation }, index), { generation, index });
      }
    }
    /** How many chunks of a generation each way of reading gave. */
    const counts = new Map<string, Set<number>>();
    let looks = 0;

    /** Of one generation, and none twice. @returns its number, and the places of the chunks in order */
    function expectOneGeneration(what: string, ids: readonly string[]) {
      const places = ids.map((id) => placeOf.get(id));
      const [generation, ...others] = new Set(places.map((place) => place?.generation));
      expect(others, `${what} of several generations`).deep.equal([]);
      if (generation === undefined) throw new Error(`${what}: nothing, or a chunk of nowhere`);
      expect(new Set(ids).size, `${what} of generation ${generation}`).equal(ids.length);
      const key = `${what} of generation ${generation}`;
      counts.set(key, (counts.get(key) ?? new Set()).add(ids.length));
      return { generation, indexes: places.map((place) => place?.index ?? -1).sort((a, b) => a - b) };
    }
    function expectWhole(what: string, ids: readonly string[]): number {
      const { generation, indexes } = expectOneGeneration(what, ids);
      expect(indexes, `${what} of generation ${generation}`).deep.equal(indexes.map((_, index) => index));
      return generation;
    }

    const readable = { orgId: member.orgId, acl: [`user:${member.userId}`] };
    const vectors = createPgVectorStore(container.db);
    const words = createWordSearchRepository(container.db);
    const terms = [...new Set(contentStems(createTextAnalyzer()('sentence version')))];
    const { embeddingModel: model } = container.config.models;
    const vector = new Float32Array(384).fill(0.05);

    async function look(): Promise<number> {
      looks += 1;
      const { items } = chunkListSchema.parse((await member.get(`/documents/${documentId}/chunks`, 200)).body);
      const listed = expectWhole(
        'the list',
        items.map((chunk) => chunk.id),
      );
      const near = await vectors.search({ readable, model, vector, limit: 500, minSimilarity: -1 });
      expectWhole(
        'the search by vectors',
        near.map((hit) => hit.chunkId),
      );
      // Chunks without these words are not found.
      const found = await words.searchWords({ readable, terms, limit: 500 });
      expectOneGeneration(
        'the search by words',
        found.map((hit) => hit.chunkId),
      );
      return listed;
    }
    const reader = (async () => {
      let newest = 0;
      while (!isOver) {
        const generation = await look();
        expect(generation, 'a generation that was replaced').least(newest);
        newest = generation;
      }
    })();
    reader.catch(() => undefined);

    for (let generation = 2; generation <= INGESTIONS + 1; generation += 1) {
      const file = { name: 'newer.txt', content: text(generation) };
      const settings = { target_tokens: random.between(10, 40), ingest: true };
      if (random.next() < 0.5) await member.upload(`/documents/${documentId}`, file, 200, { method: 'PATCH' });
      else await member.patch(`/documents/${documentId}`, settings, 200);
      const { generation: newest } = await container.db('documents').where({ id: documentId }).first('generation');
      const isOvertaken = generation <= INGESTIONS && random.next() < 0.3;
      if (!isOvertaken) await untilJob(member, ingestWorkflowId(documentId, newest), 'succeeded');
    }
    isOver = true;
    await reader;
    for (const [what, sizes] of counts) expect([...sizes], what).length(1);
    await expectInvariants(own.stack);
    await expectStoresMatch(own.stack);
    note(`${INGESTIONS} ingestions, ${deaths} dead workers, ${looks} looks`);
  });
});
