import { expect } from 'chai';
import { createChunker } from '#src/adapters/text/chunker.ts';
import { createTextAnalyzer } from '#src/adapters/text/text-analyzer.ts';
import { createTokenCounter } from '#src/adapters/text/token-counter.ts';
import { type ChunkingInput, chunkDocument } from '#src/domain/documents/chunk-document.ts';
import { windowsForSemanticChunking } from '#src/domain/documents/chunking.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';

const tools = { tokens: createTokenCounter(), analyze: createTextAnalyzer() };
const by = { orgId: 'org', signal: new AbortController().signal };
const large = Array.from({ length: 4_500 }, (_, n) => `Sentence ${n} tells of the loan. `).join('');

function source(changes: Partial<ChunkingInput['chunking']> = {}, body = large): ChunkingInput {
  const chunking = { method: 'token' as const, targetTokens: 100, overlapTokens: 10, ...changes };
  return { documentName: 'Loans', body, pageMap: [0, 50_000], chunking };
}

describe('the chunker thread', () => {
  const chunker = createChunker(tools);
  const expected = [...chunkDocument(source(), [], tools)];

  it('returns the same token chunks as a direct call, and does not block the event loop', async () => {
    let turns = 0;
    const timer = setInterval(() => {
      turns += 1;
    }, 1);
    const chunks = await chunker.chunk(source(), [], by);
    clearInterval(timer);
    expect(turns).above(20);
    expect(chunks).deep.equal(expected).length.above(400);
    expect(await chunker.windows(source(), by)).deep.equal([]);
  });

  it('returns the same semantic chunks as a direct call', async () => {
    const { body, chunking } = source({ method: 'semantic' });
    const windows = await chunker.windows({ body, chunking }, by);
    expect(windows).deep.equal(windowsForSemanticChunking(body, { ...chunking, method: 'semantic' }, tools));
    const distances = windows.slice(1).map((_, index) => (index % 20 === 0 ? 1 : 0));
    const chunks = await chunker.chunk(source({ method: 'semantic' }), distances, by);
    expect(chunks).deep.equal([...chunkDocument(source({ method: 'semantic' }), distances, tools)]);
  });

  it('stops when the signal aborts', async () => {
    const stop = new AbortController();
    const chunks = chunker.chunk(source(), [], { orgId: 'org', signal: stop.signal }).catch((error: unknown) => error);
    stop.abort(new Error('told to'));
    expect(await chunks).property('message', 'told to');
  });

  it('rejects a document that waits or takes too long or has too many chunks, and chunks the next ones', async () => {
    const busy = createChunker({ ...tools, timeouts: { queueMs: 1, threadMs: 60_000 } });
    const [running, late] = [busy.chunk(source(), [], by), busy.chunk(source(), [], by)];
    expect(await appErrorCode(late)).equal('rate_limited');
    expect(await running).deep.equal(expected);
    expect(await busy.chunk(source(), [], by)).deep.equal(expected);
    const hurried = createChunker({ ...tools, timeouts: { queueMs: 60_000, threadMs: 1 } });
    expect(await appErrorCode(hurried.chunk(source(), [], by))).equal('conversion_timeout');
    const many = source({ targetTokens: 1, overlapTokens: 0 }, 'a '.repeat(210_000));
    expect(await appErrorCode(chunker.chunk(many, [], by))).equal('too_large');
  });
});
