import { expect } from 'chai';
import pino from 'pino';
import { createEmbedders } from '#src/adapters/models/embedder.ts';
import { createTextAnalyzer } from '#src/adapters/text/text-analyzer.ts';
import { createPgVectorStore } from '#src/adapters/vectors/pgvector.ts';
import { createDocumentsRepository } from '#src/modules/documents/documents.repository.ts';
import { createRetrievalService } from '#src/modules/retrieval/retrieval.service.ts';
import type { VectorStore } from '#src/ports/vector-store.ts';
import { anIngestedDocument } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';
import { untilRun } from '#test/support/until-job.ts';

describe('retrieval while a document gets a new generation', () => {
  let shared: Stack;
  let ada: Member;
  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
  });

  it('returns the new generation', async () => {
    const text = 'The loan fee is one percent of the loan.';
    const documentId = await anIngestedDocument(ada, 'Loans', text);
    const { config, db } = shared.container;
    const vectors = createPgVectorStore(db);
    let searches = 0;
    const overtaken: Pick<VectorStore, 'search'> = {
      search: async (input) => {
        searches += 1;
        const hits = await vectors.search(input);
        if (searches === 1) {
          await ada.patch(`/documents/${documentId}`, { target_tokens: 50, ingest: true }, 200);
          await untilRun(ada, `ingest-${documentId}-2.embed`, 'succeeded');
        }
        return hits;
      },
    };
    const retrieval = createRetrievalService({
      db,
      vectors: overtaken,
      embedders: createEmbedders({ ...config.models, estimateTokens: (words) => words.length }),
      analyze: createTextAnalyzer(),
      rank: async (_type, { passages }) => [...passages],
      models: { reranker: async () => null, queryPrefix: async () => '' },
      logger: pino({ level: 'silent' }),
      inTurn: { words: (_, search) => search(), vectors: (_, search) => search() },
    });
    const actor = {
      userId: ada.userId,
      orgId: ada.orgId,
      isOrgAdmin: true,
      teamIds: [],
      teamAdminOf: [],
      openTeamIds: [],
    };
    const { chunks } = await retrieval.retrieve(actor, {
      query: 'What does a loan cost?',
      reranking: { isEnabled: null, type: null },
      contextTokens: null,
      signal: new AbortController().signal,
    });
    expect(chunks.map((chunk) => chunk.content)).deep.equal([text]);
    expect(searches).equal(2);
  });

  it('finds a document whose change was committed late', async () => {
    const documentId = await anIngestedDocument(ada, 'Fees', 'The fee is one percent.');
    const actor = {
      userId: ada.userId,
      orgId: ada.orgId,
      isOrgAdmin: true,
      teamIds: [],
      teamAdminOf: [],
      openTeamIds: [],
    };
    const updatedAfterBegin = await shared.container.db.transaction(async (trx) => {
      await trx.raw('select pg_sleep(0.01)');
      const documents = createDocumentsRepository(trx);
      const document = await documents.findRow(actor, documentId);
      if (document !== undefined) await documents.update(document);
      return trx('documents').where({ id: documentId }).whereRaw('updated_at > now()').pluck('id');
    });
    expect(updatedAfterBegin).deep.equal([documentId]);
  });
});
