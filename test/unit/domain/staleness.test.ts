import { expect } from 'chai';
import { defaultRagConfig, findStaleIngestionResults, type RagConfig } from '#src/domain/documents/rag-config.ts';

describe('staleness', () => {
  const config = defaultRagConfig({ embeddingModel: 'small', hasReranker: false });
  const of = (changes: Partial<RagConfig> = {}, contentSha256 = 'a') => ({
    contentSha256,
    ragConfig: { ...config, ...changes },
  });

  it('reports nothing if content and chunking settings are unchanged', () => {
    const found = { retrieval: { ...config.retrieval, rrfK: 1 }, reranking: { ...config.reranking, topK: 1 } };
    expect(findStaleIngestionResults(of(), of(found))).deep.equal({ chunking: false, embedding: false });
  });

  it('reports chunks and vectors for new content and each changed chunking setting', () => {
    const cuts: Partial<RagConfig['chunking']>[] = [{ method: 'semantic' }, { targetTokens: 9 }, { overlapTokens: 9 }];
    const changes = cuts.map((cut) => of({ chunking: { ...config.chunking, ...cut } }));
    for (const now of [of({}, 'b'), ...changes]) {
      expect(findStaleIngestionResults(of(), now)).deep.equal({ chunking: true, embedding: true });
    }
  });

  it('reports only vectors for another embedding model', () => {
    expect(findStaleIngestionResults(of(), of({ embedding: { model: 'large' } }))).deep.equal({
      chunking: false,
      embedding: true,
    });
  });
});
