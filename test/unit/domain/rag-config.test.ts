import { expect } from 'chai';
import { applyChunkingOptions, defaultRagConfig, isChunkOverlapBelowTarget } from '#src/domain/documents/rag-config.ts';

describe('the RAG configuration of a document', () => {
  const defaults = defaultRagConfig({ embeddingModel: 'small', hasReranker: false });

  it('has the documented defaults', () => {
    expect(defaults.chunking).to.deep.equal({ method: 'token', targetTokens: 400, overlapTokens: 60 });
    expect(defaults.retrieval).to.include({ mode: 'hybrid', rrfK: 60, minVectorSimilarity: 0.25 });
    expect(defaults.reranking).to.include({ enabled: false, topK: 8 });
    expect(defaults.embedding.model).to.equal('small');
  });

  it('applies only the requested chunking options', () => {
    const config = applyChunkingOptions(defaults, { method: 'semantic', targetTokens: 200, overlapTokens: 0 });
    expect(config).to.deep.equal({
      ...defaults,
      chunking: { method: 'semantic', targetTokens: 200, overlapTokens: 0 },
    });
    expect(applyChunkingOptions(defaults, {})).to.deep.equal(defaults);
  });

  it('reduces the default overlap for a small target', () => {
    for (const targetTokens of [1, 10, 59, 60, 400, 8192]) {
      expect(isChunkOverlapBelowTarget(applyChunkingOptions(defaults, { targetTokens }).chunking)).to.equal(true);
    }
  });

  it('keeps a requested overlap that reaches the target, so that validation rejects it', () => {
    const { chunking } = applyChunkingOptions(defaults, { targetTokens: 50, overlapTokens: 50 });
    expect(isChunkOverlapBelowTarget(chunking)).to.equal(false);
  });
});
