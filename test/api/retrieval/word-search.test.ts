import { expect } from 'chai';
import type { Knex } from 'knex';
import { createTextAnalyzer } from '#src/adapters/text/text-analyzer.ts';
import { indexedTextOfChunk } from '#src/domain/documents/chunk-document.ts';
import { bm25TermScore } from '#src/domain/retrieval/bm25.ts';
import { contentStems } from '#src/domain/text/words.ts';
import { createWordSearchRepository } from '#src/modules/retrieval/word-search.repository.ts';
import { anIngestedDocument } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';

const texts = [
  'The loan fee is one percent of the loan.',
  'A mortgage is a loan on a house, with a fee and an interest rate that the bank sets every year anew.',
  'The branch opens at nine.',
  'Interest is paid monthly. Interest rates change.',
];

describe('word search', () => {
  let own: Stack;
  let db: Knex;
  let ada: Member;

  before(async () => {
    own = await stack();
    db = own.container.db;
    ada = await own.signUp('Ada');
    for (const [index, text] of texts.entries()) await anIngestedDocument(ada, `Note ${index}`, text);
  });

  async function search(query: string, acl: string[], limit = 50) {
    const terms = [...new Set(contentStems(createTextAnalyzer()(query)))];
    const readable = { orgId: ada.orgId, acl };
    return { terms, hits: await createWordSearchRepository(db).searchWords({ readable, terms, limit }) };
  }

  /** The formula over the stored texts, by hand. */
  async function scoresByHand(terms: string[]): Promise<Map<string, number>> {
    const rows: { id: string; contextualText: string; content: string }[] = await db('chunks').where({
      orgId: ada.orgId,
    });
    const chunks = rows.map((row) => ({
      id: row.id,
      stems: contentStems(createTextAnalyzer()(indexedTextOfChunk(row))),
    }));
    const averageLength = chunks.reduce((sum, chunk) => sum + chunk.stems.length, 0) / chunks.length;
    const scores = new Map<string, number>();
    for (const term of terms) {
      const having = chunks.filter((chunk) => chunk.stems.includes(term));
      for (const { id, stems } of having) {
        const frequency = stems.filter((stem) => stem === term).length;
        const score = bm25TermScore(frequency, having.length, chunks.length, stems.length, averageLength);
        scores.set(id, (scores.get(id) ?? 0) + score);
      }
    }
    return scores;
  }

  it('ranks by BM25, best first', async () => {
    const { terms, hits } = await search('What is the interest and the fee of a loan?', [`user:${ada.userId}`]);
    const byHand = [...(await scoresByHand(terms))].sort(([, a], [, b]) => b - a);
    expect(hits.map((hit) => hit.chunkId)).deep.equal(byHand.map(([chunkId]) => chunkId));
    for (const [index, hit] of hits.entries()) expect(hit.score).closeTo(byHand[index]?.[1] ?? 0, 1e-9);
  });

  it('returns nothing to users without access, although the statistics are shared', async () => {
    expect((await search('loan fee', ['user:somebody-else'])).hits).deep.equal([]);
  });

  it('returns nothing for unknown words and for an empty query', async () => {
    expect((await search('penguins', [`user:${ada.userId}`])).hits).deep.equal([]);
    expect((await search('the of and', [`user:${ada.userId}`])).hits).deep.equal([]);
  });
});
