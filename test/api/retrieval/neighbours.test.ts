import { expect } from 'chai';
import fc from 'fast-check';
import type { RagConfig } from '#src/domain/documents/rag-config.ts';
import { createWordSearchRepository } from '#src/modules/retrieval/word-search.repository.ts';
import { propertyRuns } from '#test/support/property-runs.ts';
import {
  adaOf,
  createRetrievalFixture,
  type NewDocument,
  question,
  type RetrievalFixture,
  wordEmbedders,
} from '#test/support/retrieval-fixture.ts';

const words = ['loan', 'fee', 'bank', 'house', 'rate', 'year', 'payment', 'credit'];
const sentence = fc.array(fc.constantFrom(...words), { minLength: 1, maxLength: 6 }).map((found) => found.join(' '));
const settings: fc.Arbitrary<Partial<RagConfig['retrieval']>> = fc.record({
  mode: fc.constantFrom('hybrid', 'vector', 'word_match'),
  rrfK: fc.constantFrom(1, 60),
  minVectorSimilarity: fc.constantFrom(-1, 0.25),
});
const document: fc.Arbitrary<NewDocument> = fc.record({
  texts: fc.array(sentence, { minLength: 1, maxLength: 3 }),
  model: fc.constantFrom('model-a', 'model-b'),
  retrieval: settings,
});
const library = fc.array(document, { minLength: 1, maxLength: 5 });
const runs = { numRuns: propertyRuns(100) };

describe('unreadable documents', () => {
  let fixture: RetrievalFixture;
  before(async () => {
    fixture = await createRetrievalFixture();
  });
  after(() => fixture.close());

  type Organization = Awaited<ReturnType<RetrievalFixture['addOrganization']>>;

  async function open(documents: readonly NewDocument[]): Promise<Organization> {
    const organization = await fixture.addOrganization();
    for (const each of documents) await fixture.addDocument(organization, each);
    return organization;
  }
  async function answer({ orgId }: Organization, query: string): Promise<string[]> {
    const { ranked, degradations } = await fixture.createRetrieval().rankChunks(adaOf(orgId), question(query));
    expect(degradations).deep.equal([]);
    return ranked.map(({ chunkId }) => chunkId);
  }
  /** Of both legs, for each model, over all settings. */
  async function scores({ orgId }: Organization, query: string) {
    const readable = { orgId, acl: ['user:ada'] };
    const similarities = async (model: string) => {
      const [vector = new Float32Array()] = await wordEmbedders.of(model).embed([query]);
      return fixture.vectors.search({ readable, model, vector, limit: 50, minSimilarity: -1 });
    };
    return [
      await createWordSearchRepository(fixture.db).searchWords({ readable, terms: query.split(' '), limit: 50 }),
      await similarities('model-a'),
      await similarities('model-b'),
    ];
  }

  it('of another organization change neither hits nor scores', async () => {
    await fc.assert(
      fc.asyncProperty(library, sentence, document, async (documents, query, foreign) => {
        const organization = await open(documents);
        const before = [await answer(organization, query), await scores(organization, query)];
        // With her own key on it, as it should never be.
        await fixture.addDocument(await fixture.addOrganization(), { ...foreign, acl: ['user:ada'] });
        expect([await answer(organization, query), await scores(organization, query)]).deep.equal(before);
      }),
      runs,
    );
  });

  it('of the same organization neither add nor remove hits', async () => {
    await fc.assert(
      fc.asyncProperty(library, sentence, document, async (documents, query, secret) => {
        const organization = await open(documents);
        const before = await answer(organization, query);
        await fixture.addDocument(organization, { ...secret, acl: ['user:eve'] });
        expect((await answer(organization, query)).sort()).deep.equal(before.sort());
      }),
      runs,
    );
  });
});
