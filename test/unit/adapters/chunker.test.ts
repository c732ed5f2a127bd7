import { expect } from 'chai';
import { createChunker } from '#src/adapters/text/chunker.ts';
import { createTextAnalyzer } from '#src/adapters/text/text-analyzer.ts';
import { createTokenCounter } from '#src/adapters/text/token-counter.ts';
import { type ChunkingInput, chunkDocument } from '#src/domain/documents/chunk-document.ts';
import { windowsForSemanticChunking } from '#src/domain/documents/chunking.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';

const tools = { tokens: createTokenCounter(), analyze: createTextAnalyzer() };
const by = { orgId: 'org', signal: new AbortController().signal };

describe('chunker', () => {
  const chunker = createChunker(tools);
  const large = Array.from({ length: 4_500 }, (_, n) => `Sentence ${n} tells of the loan. `).join('');

  function source(changes: Partial<ChunkingInput['chunking']> = {}, body = large): ChunkingInput {
    const chunking = { method: 'token' as const, targetTokens: 100, overlapTokens: 10, ...changes };
    return { documentName: 'Loans', body, pageMap: [0, 50_000], chunking };
  }

  it('chunks a large document in a thread with the same result as without', async () => {
    const chunks = await chunker.chunk(source(), [], by);
    expect(chunks).deep.equal([...chunkDocument(source(), [], tools)]);
    expect(chunks.length).greaterThan(400);
  });

  it('chunks semantically in a thread with the same result as without', async () => {
    const { body, chunking } = source({ method: 'semantic' });
    const windows = await chunker.windows({ body, chunking }, by);
    expect(windows).deep.equal(windowsForSemanticChunking(body, { ...chunking, method: 'semantic' }, tools));
    const distances = windows.slice(1).map((_, index) => (index % 20 === 0 ? 1 : 0));
    const chunks = await chunker.chunk(source({ method: 'semantic' }), distances, by);
    expect(chunks).deep.equal([...chunkDocument(source({ method: 'semantic' }), distances, tools)]);
  });

  it('returns no windows for chunking by tokens', async () => {
    expect(await chunker.windows(source(), by)).deep.equal([]);
  });

  it('does not block the event loop', async () => {
    let turns = 0;
    const timer = setInterval(() => {
      turns += 1;
    }, 1);
    await chunker.chunk(source(), [], by);
    clearInterval(timer);
    expect(turns).greaterThan(20);
  });

  it('stops when the signal aborts', async () => {
    const stop = new AbortController();
    const chunks = chunker.chunk(source(), [], { orgId: 'org', signal: stop.signal });
    stop.abort(new Error('told to'));
    expect(await chunks.catch((error: unknown) => error))
      .instanceOf(Error)
      .property('message', 'told to');
  });

  it('rejects a document that waits too long, and chunks those behind it', async () => {
    const busy = createChunker({ ...tools, timeouts: { queueMs: 1, threadMs: 60_000 } });
    const [running, late] = [busy.chunk(source(), [], by), busy.chunk(source(), [], by)];
    expect(await appErrorCode(late)).equal('rate_limited');
    const expected = [...chunkDocument(source(), [], tools)];
    expect(await running).deep.equal(expected);
    expect(await busy.chunk(source(), [], by)).deep.equal(expected);
  });

  it('rejects a document that takes too long', async () => {
    const hurried = createChunker({ ...tools, timeouts: { queueMs: 60_000, threadMs: 1 } });
    expect(await appErrorCode(hurried.chunk(source(), [], by))).equal('conversion_timeout');
  });

  it('rejects a text with too many chunks', async () => {
    const many = source({ targetTokens: 1, overlapTokens: 0 }, 'a '.repeat(210_000));
    expect(await appErrorCode(chunker.chunk(many, [], by))).equal('too_large');
  });
});
