import { expect } from 'chai';
import { createTextAnalyzer } from '#src/adapters/text/text-analyzer.ts';
import { createPgVectorStore } from '#src/adapters/vectors/pgvector.ts';
import { ingestWorkflowId } from '#src/contracts/workflow-ids.ts';
import { contentStems } from '#src/domain/text/words.ts';
import { chunkListSchema } from '#src/modules/documents/chunks.schema.ts';
import { deriveChunkId } from '#src/modules/ingestion/ingestion.service.ts';
import { createWordSearchRepository } from '#src/modules/retrieval/word-search.repository.ts';
import { replaceOriginal } from '#test/support/builders.ts';
import { expectInvariants, uploadText } from '#test/support/fault-case.ts';
import { note } from '#test/support/fault-run.ts';
import { sentences } from '#test/support/ingestion-steps.ts';
import { runSeed, seeded } from '#test/support/seeded.ts';
import { expectStoresMatch } from '#test/support/stores.ts';
import { untilJob } from '#test/support/until-job.ts';
import { useFaultCase } from './use-fault-case.ts';

const INGESTIONS = 100;
const MOST_CHUNKS = 140;
const ingestion = ['parseDocument', 'convertDocument', 'chunkDocument', 'embedChunks', 'activateGeneration'] as const;
const steps = [...ingestion, 'ingestAtOnce'] as const;
const positions = ['before', 'after_effect'] as const;

describe('a document that is ingested repeatedly while steps fail and workers die', function () {
  this.timeout(60_000 * INGESTIONS);
  const random = seeded(runSeed);
  const { own } = useFaultCase();
  let isOver = false;
  let deaths = 0;

  /** Starts a worker that fails now and then and dies after some ingestions, and another one when it does. */
  async function keepWorking(): Promise<void> {
    const faults = [
      `${random.pick(steps)}:${random.pick(positions)}:kill:${random.between(5, 9)}`,
      ...steps.map((step) => `${step}:${random.pick(positions)}:throw:${random.between(1, 9)}`),
    ];
    const worker = await own.startWorker({ NODE_ENV: 'test', FAULTS: faults.join() });
    void worker.ended.then(() => {
      if (isOver) return;
      deaths += 1;
      return keepWorking();
    });
  }

  const text = (version: number) => sentences(random.between(3, MOST_CHUNKS), `of version ${version}`);

  /**
   * Reads the document in each way until all is over. A chunk's id follows from its generation and its index there.
   * @returns how often
   */
  async function readUntilOver(documentId: string): Promise<number> {
    const { member, stack } = own;
    const { db, config } = stack.container;
    const placeOf = new Map<string | undefined, { generation: number; index: number }>();
    for (let generation = 1; generation <= INGESTIONS + 1; generation += 1) {
      for (let index = 0; index < MOST_CHUNKS * 2; index += 1) {
        placeOf.set(deriveChunkId({ orgId: member.orgId, documentId, generation }, index), { generation, index });
      }
    }
    /** How many chunks of a generation each way of reading gave. */
    const counts = new Map<string, Set<number>>();

    /** Checks that the chunks are of one generation, and none is there twice. @returns the generation */
    function expectOneGeneration(what: string, ids: readonly string[], isWhole = true): number {
      const places = ids.map((id) => placeOf.get(id) ?? expect.fail(`${what}: a chunk of no generation`));
      const [generation = expect.fail(`${what}: nothing`), ...others] = new Set(
        places.map((place) => place.generation),
      );
      expect(others, `${what} of several generations`).deep.equal([]);
      const key = `${what} of generation ${generation}`;
      const indexes = places.map(({ index }) => index).sort((a, b) => a - b);
      expect(indexes, key).deep.equal(isWhole ? indexes.map((_, index) => index) : [...new Set(indexes)]);
      counts.set(key, (counts.get(key) ?? new Set()).add(ids.length));
      return generation;
    }

    const readable = { orgId: member.orgId, acl: [`user:${member.userId}`] };
    const [vectors, words] = [createPgVectorStore(db), createWordSearchRepository(db)];
    const terms = [...new Set(contentStems(createTextAnalyzer()('sentence version')))];
    const nearest = {
      model: config.models.embeddingModel,
      vector: new Float32Array(384).fill(0.05),
      minSimilarity: -1,
    };
    const idsOf = (hits: readonly { chunkId: string }[]) => hits.map(({ chunkId }) => chunkId);

    async function look(): Promise<number> {
      const { items } = chunkListSchema.parse((await member.get(`/documents/${documentId}/chunks`, 200)).body);
      const listed = items.map(({ id }) => id);
      const generation = expectOneGeneration('the list', listed);
      const near = await vectors.search({ readable, ...nearest, limit: 500 });
      expectOneGeneration('the search by vectors', idsOf(near));
      // Chunks without these words are not found.
      const found = await words.searchWords({ readable, terms, limit: 500 });
      expectOneGeneration('the search by words', idsOf(found), false);
      return generation;
    }
    let looks = 0;
    for (let newest = 0; !isOver; looks += 1) {
      const generation = await look();
      expect(generation, 'a generation that was replaced').least(newest);
      newest = generation;
    }
    for (const [what, sizes] of counts) expect([...sizes], what).length(1);
    return looks;
  }

  it(`always shows its readers one complete generation, and no chunk twice, in ${INGESTIONS} ingestions`, async () => {
    const { member, stack } = own;
    await keepWorking();
    const { documentId, jobId } = await uploadText(member, text(1), { target_tokens: '14', overlap_tokens: '0' });
    await untilJob(member, jobId, 'succeeded');
    const reader = readUntilOver(documentId);
    reader.catch(() => undefined);

    for (let generation = 2; generation <= INGESTIONS + 1; generation += 1) {
      const file = { name: 'newer.txt', content: text(generation) };
      const settings = { target_tokens: random.between(10, 40), ingest: true };
      if (random.next() < 0.5) await replaceOriginal(member, documentId, file);
      else await member.patch(`/documents/${documentId}`, settings, 200);
      const document = stack.container.db('documents').where({ id: documentId });
      const { generation: newest } = await document.first('generation');
      const isOvertaken = generation <= INGESTIONS && random.next() < 0.3;
      if (!isOvertaken) await untilJob(member, ingestWorkflowId(documentId, newest), 'succeeded');
    }
    isOver = true;
    note(`${INGESTIONS} ingestions, ${deaths} dead workers, ${await reader} looks`);
    await expectInvariants(stack);
    await expectStoresMatch(stack);
  });
});
