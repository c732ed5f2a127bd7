import { expect } from 'chai';
import { defaultRagConfig, type RagConfig, staleness } from '#src/domain/documents/rag-config.ts';

describe('staleness', () => {
  const config = defaultRagConfig({ embeddingModel: 'small', hasReranker: false });
  const of = (changes: Partial<RagConfig> = {}, contentSha256 = 'a') => ({
    contentSha256,
    ragConfig: { ...config, ...changes },
  });

  it('is none while nothing has changed that chunks are made of', () => {
    const found = { retrieval: { ...config.retrieval, rrfK: 1 }, reranking: { ...config.reranking, topK: 1 } };
    expect(staleness(of(), of(found))).deep.equal({ chunking: false, embedding: false });
  });

  it('is of chunks and vectors for another content and for every setting of the cut', () => {
    const cuts: Partial<RagConfig['chunking']>[] = [{ method: 'semantic' }, { targetTokens: 9 }, { overlapTokens: 9 }];
    const changes = cuts.map((cut) => of({ chunking: { ...config.chunking, ...cut } }));
    for (const now of [of({}, 'b'), ...changes]) {
      expect(staleness(of(), now)).deep.equal({ chunking: true, embedding: true });
    }
  });

  it('is of vectors alone for another model', () => {
    expect(staleness(of(), of({ embedding: { model: 'large' } }))).deep.equal({ chunking: false, embedding: true });
  });
});
