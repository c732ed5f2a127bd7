import { expect } from 'chai';
import { defaultRagConfig, isSmallDocument } from '#src/domain/documents/rag-config.ts';

describe('isSmallDocument', () => {
  const config = defaultRagConfig({ embeddingModel: 'model', hasReranker: false });
  const isSmall = (sizeBytes: number, chunking = {}, sourceFormat: string | null = 'markdown') =>
    isSmallDocument({
      sourceFormat,
      sizeBytes,
      ragConfig: { ...config, chunking: { ...config.chunking, ...chunking } },
    });

  it('is a page, and not a book', () => {
    expect(isSmall(0)).equal(true);
    expect(isSmall(8_000)).equal(true);
    expect(isSmall(1_000_000)).equal(false);
  });

  it('is a matter of how many chunks there will be', () => {
    expect(isSmall(8_000, { targetTokens: 12 })).equal(false);
  });

  it('is none that has to be read by a parser, or that nobody knows', () => {
    for (const format of ['pdf', 'docx', 'html', 'csv', null]) expect(isSmall(8_000, {}, format)).equal(false);
  });

  it('is none that is cut by meaning, which takes a model for each sentence', () => {
    expect(isSmall(8_000, { method: 'semantic' })).equal(false);
  });
});
