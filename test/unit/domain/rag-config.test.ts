import { expect } from 'chai';
import {
  applyChunkingOptions,
  defaultRagConfig,
  findStaleIngestionResults,
  isChunkOverlapBelowTarget,
  isSmallDocument,
  type RagConfig,
} from '#src/domain/documents/rag-config.ts';
import {
  cronMatchesSomeDate,
  isSupportedCron,
  smallestCronIntervalMinutes,
} from '#src/domain/documents/sync-schedule.ts';

const defaults = defaultRagConfig({ embeddingModel: 'small', hasReranker: false });

describe('the RAG configuration of a document', () => {
  it('has the documented defaults', () => {
    expect(defaults.chunking).to.deep.equal({ method: 'token', targetTokens: 400, overlapTokens: 60 });
    expect(defaults.retrieval).to.include({ mode: 'hybrid', rrfK: 60, minVectorSimilarity: 0.25 });
    expect(defaults.reranking).to.include({ enabled: false, topK: 8 });
    expect(defaults.embedding.model).to.equal('small');
  });

  it('contains the requested chunking options, and reduces the default overlap for a small target size', () => {
    const chunking = { method: 'semantic', targetTokens: 200, overlapTokens: 0 } as const;
    expect(applyChunkingOptions(defaults, chunking)).to.deep.equal({ ...defaults, chunking });
    expect(applyChunkingOptions(defaults, {})).to.deep.equal(defaults);
    for (const targetTokens of [1, 10, 59, 60, 400, 8192]) {
      expect(isChunkOverlapBelowTarget(applyChunkingOptions(defaults, { targetTokens }).chunking)).to.equal(true);
    }
    // A requested overlap stays, so that validation rejects it.
    const requested = applyChunkingOptions(defaults, { targetTokens: 50, overlapTokens: 50 });
    expect(isChunkOverlapBelowTarget(requested.chunking)).to.equal(false);
  });

  it('makes chunks or vectors stale if the content or one of its settings changes', () => {
    const stale = (changes: Partial<RagConfig>, contentSha256 = 'a') => {
      const before = { contentSha256: 'a', ragConfig: defaults };
      const result = findStaleIngestionResults(before, { contentSha256, ragConfig: { ...defaults, ...changes } });
      return Object.keys(result)
        .filter((key) => Object(result)[key])
        .join(' and ');
    };
    const chunking = (change: Partial<RagConfig['chunking']>) => ({ chunking: { ...defaults.chunking, ...change } });
    const found = { retrieval: { ...defaults.retrieval, rrfK: 1 }, reranking: { ...defaults.reranking, topK: 1 } };
    expect(stale(found)).equal('');
    expect(stale({ embedding: { model: 'large' } })).equal('embedding');
    expect(stale({}, 'b')).equal('chunking and embedding');
    for (const change of [{ method: 'semantic' as const }, { targetTokens: 9 }, { overlapTokens: 9 }]) {
      expect(stale(chunking(change))).equal('chunking and embedding');
    }
  });

  it('classes as small a text of few chunks and other files up to 4 MiB, but no picture and no chunking by meaning', () => {
    const bytes = 4 * 1024 * 1024;
    for (const [sizeBytes, sourceFormat, chunking, isSmall] of [
      [8_000, 'markdown', {}, true],
      [1_000_000, 'markdown', {}, false],
      [8_000, 'markdown', { targetTokens: 12 }, false],
      [8_000, 'markdown', { method: 'semantic' }, false],
      [bytes, 'pdf', {}, true],
      [bytes, null, {}, true],
      [bytes + 1, 'pdf', {}, false],
      [8_000, 'image', {}, false],
      [8_000, 'ppt', {}, false],
    ] as const) {
      const ragConfig = { ...defaults, chunking: { ...defaults.chunking, ...chunking } };
      expect(isSmallDocument({ sourceFormat, sizeBytes, ragConfig }), `${sizeBytes} ${sourceFormat}`).equal(isSmall);
    }
  });
});

describe('the schedule of a sync', () => {
  it('is a cron expression of five fields of numbers, ranges, lists and steps', () => {
    for (const text of [
      '* * * * *',
      ' 0 0 1 1 0 ',
      '59 23 31 12 7',
      '*/2 1-1 1,2-3 5/20 *',
      '0-59 0-23 1-31 1-12 0-7',
    ]) {
      expect(isSupportedCron(text), text).equal(true);
    }
    for (const text of [
      ...['* * * *', '* * * * * *', '60 * * * *', '* 24 * * *', '* * 0 * *', '* * * 13 *', '* * * * 8', ''],
      ...['5-4 * * * *', '*/0 * * * *', '1, * * * *', '1,x * * * *', 'L * * * *', '* * * JAN *', '@daily * * * *'],
    ]) {
      expect(isSupportedCron(text), text).equal(false);
    }
  });

  it('tells the smallest number of minutes between two of its runs', () => {
    for (const [text, minutes] of Object.entries({
      ...{ '* * * * *': 1, '*/2 * * * *': 2, '*/25 * * * *': 10, '0 4 * * *': 60 },
      ...{ ' 0,30 * * * * ': 30, '3,58 * * * *': 5, '10-30/10 * * * *': 10, '5/20 * * * *': 20, '0-1 * * * *': 1 },
    })) {
      expect(smallestCronIntervalMinutes(text), text).equal(minutes);
    }
  });

  it('is accepted only if it matches some date', () => {
    const some = ['0 0 * * *', '0 0 29 2 *', '0 0 31 4-5 *', '0 0 30-31 */2 1', '0 0 31 2/2 *', ' 0 0 31 1 *'];
    for (const text of some) expect(cronMatchesSomeDate(text), text).equal(true);
    for (const text of ['0 0 30 2 *', '0 0 31 4,6,9,11 *', '0 0 31 2/9 *'])
      expect(cronMatchesSomeDate(text), text).equal(false);
  });
});
