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

  it('is true for a page and false for a book', () => {
    expect(isSmall(0)).equal(true);
    expect(isSmall(8_000)).equal(true);
    expect(isSmall(1_000_000)).equal(false);
  });

  it('depends on the expected number of chunks', () => {
    expect(isSmall(8_000, { targetTokens: 12 })).equal(false);
  });

  it('is false for formats that need a parser, and for unknown formats', () => {
    for (const format of ['pdf', 'docx', 'html', 'csv', null]) expect(isSmall(8_000, {}, format)).equal(false);
  });

  it('is false for semantic chunking, which embeds each sentence', () => {
    expect(isSmall(8_000, { method: 'semantic' })).equal(false);
  });
});
