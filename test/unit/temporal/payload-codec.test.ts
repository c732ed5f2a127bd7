import { randomBytes } from 'node:crypto';
import { defaultPayloadConverter, type Payload } from '@temporalio/common';
import { expect } from 'chai';
import { createPayloadCodec } from '#src/temporal/data-converter.ts';

const key = (id: string) => ({ id, key: randomBytes(32) });
const [first, second] = [key('2025'), key('2026-11')];
const plain = defaultPayloadConverter.toPayload({ documentId: 'a-document', stage: 'parse' }) as Payload;
const codecOf = (...all: (typeof first)[]) => createPayloadCodec({ sealing: all[0] ?? null, all });

describe('the payload codec', () => {
  it('encrypts everything except the key id, and decrypts it again', async () => {
    const codec = codecOf(first);
    const [sealed, again] = await codec.encode([plain, plain]);
    const { encoding, ...metadata } = sealed?.metadata ?? {};
    expect(String(encoding)).equal('binary/encrypted');
    expect(Object.entries(metadata).map(([name, value]) => [name, String(value)])).deep.equal([
      ['encryption-key-id', '2025'],
    ]);
    expect(Buffer.from(sealed?.data ?? []).includes('document')).equal(false);
    expect(sealed?.data).not.deep.equal(again?.data);
    const [opened] = await codec.decode([sealed as Payload]);
    expect(defaultPayloadConverter.fromPayload(opened as Payload)).deep.equal({
      documentId: 'a-document',
      stage: 'parse',
    });
  });

  it('encrypts with the first key and decrypts with all', async () => {
    const old = await codecOf(first).encode([plain]);
    const both = codecOf(second, first);
    const [renewed] = await both.encode([plain]);
    expect(String(renewed?.metadata?.['encryption-key-id'])).equal('2026-11');
    expect(await both.decode([...old, renewed as Payload])).to.have.length(2);
  });

  it('reads payloads that were written without a key', async () => {
    expect(await codecOf(first).decode([plain])).deep.equal([plain]);
  });

  it('does not encrypt if it is configured to decrypt only', async () => {
    const opening = createPayloadCodec({ sealing: null, all: [first] });
    expect(await opening.encode([plain])).deep.equal([plain]);
    expect(await opening.decode(await codecOf(first).encode([plain]))).to.have.length(1);
  });

  it('names a missing key', async () => {
    const sealed = await codecOf(first).encode([plain]);
    const without = 'TEMPORAL_CODEC_KEY lacks the key "2025", which encrypted the payload.';
    for (const codec of [codecOf(second), createPayloadCodec({ sealing: null, all: [] })]) {
      expect(await messageOf(codec.decode(sealed))).equal(without);
    }
  });

  it('rejects payloads that were changed, truncated or encrypted with another key of the same id', async () => {
    const [sealed] = await codecOf(first).encode([plain]);
    const data = Buffer.from(sealed?.data ?? []);
    const changed = Buffer.from(data);
    changed[20] = (changed[20] ?? 0) ^ 1;
    for (const part of [changed, data.subarray(0, -1), data.subarray(0, 10)]) {
      const payload = { ...sealed, data: part } as Payload;
      expect(await messageOf(codecOf(first).decode([payload]))).match(/^A payload could not be decrypted: .*"2025"/);
    }
    const namesake = codecOf(key('2025'));
    expect(await messageOf(namesake.decode([sealed as Payload]))).match(/^A payload could not be decrypted/);
  });
});

function messageOf(work: Promise<unknown>): Promise<string> {
  return work.then(
    () => 'nothing was refused',
    (error: Error) => error.message,
  );
}
