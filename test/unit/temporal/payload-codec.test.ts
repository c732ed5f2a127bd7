import { randomBytes } from 'node:crypto';
import { defaultPayloadConverter, type Payload } from '@temporalio/common';
import { expect } from 'chai';
import { createPayloadCodec } from '#src/temporal/data-converter.ts';

const key = (id: string) => ({ id, key: randomBytes(32) });
const [first, second] = [key('2025'), key('2026-11')];
const value = { documentId: 'a-document', stage: 'parse' };
const plain = defaultPayloadConverter.toPayload(value) as Payload;
const codecOf = (...all: (typeof first)[]) => createPayloadCodec({ sealing: all[0] ?? null, all });
const errorOf = async (work: Promise<unknown>) => String(await work.catch((error: unknown) => error));

describe('the payload codec', () => {
  it('encrypts everything except the key id, each time differently, and decrypts the result', async () => {
    const [sealed, again] = (await codecOf(first).encode([plain, plain])) as [Payload, Payload];
    const metadata = Object.entries(sealed.metadata ?? {}).map(([name, text]) => `${name}: ${text}`);
    expect(metadata).members(['encoding: binary/encrypted', 'encryption-key-id: 2025']);
    expect(Buffer.from(sealed.data ?? []).includes('document')).equal(false);
    expect(sealed.data).not.deep.equal(again.data);
    const [opened] = (await codecOf(first).decode([sealed])) as [Payload];
    expect(defaultPayloadConverter.fromPayload(opened)).deep.equal(value);
  });

  it('encrypts with the first key, decrypts with all keys, and reads unencrypted payloads', async () => {
    const [old] = (await codecOf(first).encode([plain])) as [Payload];
    const both = codecOf(second, first);
    const [renewed] = (await both.encode([plain])) as [Payload];
    expect(String(renewed.metadata?.['encryption-key-id'])).equal('2026-11');
    const decoded = await both.decode([old, renewed, plain]);
    expect(decoded.map((payload) => payload.data)).deep.equal(Array(3).fill(plain.data));
    const opening = createPayloadCodec({ sealing: null, all: [first] });
    expect(await opening.encode([plain]), 'configured to decrypt only').deep.equal([plain]);
    expect(await opening.decode([old])).length(1);
  });

  it('names a missing key, and rejects payloads that were changed, truncated or of another key', async () => {
    const [sealed] = (await codecOf(first).encode([plain])) as [Payload];
    const without = 'ValueError: TEMPORAL_CODEC_KEY lacks the key "2025", which encrypted the payload.';
    for (const codec of [codecOf(second), createPayloadCodec({ sealing: null, all: [] })]) {
      expect(await errorOf(codec.decode([sealed]))).equal(without);
    }
    const data = Buffer.from(sealed.data ?? []);
    const changed = Buffer.from(data);
    changed[20] = (changed[20] ?? 0) ^ 1;
    for (const part of [changed, data.subarray(0, -1), data.subarray(0, 10)]) {
      const decoded = codecOf(first).decode([{ ...sealed, data: part }]);
      expect(await errorOf(decoded)).match(/^ValueError: A payload could not be decrypted: .*"2025"/);
    }
    expect(await errorOf(codecOf(key('2025')).decode([sealed]))).match(/^ValueError: A payload could not be decrypted/);
  });
});
