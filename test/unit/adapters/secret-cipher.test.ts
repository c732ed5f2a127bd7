import { randomBytes } from 'node:crypto';
import { expect } from 'chai';
import { createSecretCipher } from '#src/adapters/secrets/secret-cipher.ts';
import { AppError } from '#src/errors.ts';

const key = (id: string) => ({ id, key: randomBytes(32) });

describe('the secret cipher', () => {
  const [first, second] = [key('2026-01'), key('2026-02')];
  const cipher = createSecretCipher([first]);
  const encrypted = cipher.encrypt('s3cret ключ', 'connections/1');
  const refused = (text: string, row = 'connections/1') => {
    expect(() => cipher.decrypt(text, row), text)
      .throw(AppError)
      .property('code', 'credentials_unreadable');
  };

  it('decrypts a secret for the row that it was encrypted for, and for no other', () => {
    expect(encrypted)
      .match(/^2026-01:/)
      .and.not.contain('s3cret');
    expect(cipher.encrypt('s3cret ключ', 'connections/1'), 'each time another').not.equal(encrypted);
    expect(cipher.decrypt(encrypted, 'connections/1')).deep.equal({ secret: 's3cret ключ', isStale: false });
    refused(encrypted, 'connections/2');
  });

  it('rejects a changed or truncated ciphertext, and a ciphertext of another key with an equal id', () => {
    const body = Buffer.from(encrypted.split(':')[1] ?? '', 'base64');
    for (let at = 0; at < body.length; at += 1) {
      const changed = Buffer.from(body);
      changed.writeUInt8(changed.readUInt8(at) ^ 1, at);
      refused(`2026-01:${changed.toString('base64')}`);
    }
    const truncated = [encrypted.slice(0, 20), `2026-01:${'A'.repeat(37)}`];
    for (const text of ['', ':', '2026-01:', 'no key at all', ...truncated]) refused(text);
    refused(createSecretCipher([key('2026-01')]).encrypt('s3cret', 'connections/1'));
  });

  it('encrypts with the first key, decrypts with all keys, and marks secrets of an older key as stale', () => {
    const rotated = createSecretCipher([second, first]);
    expect(rotated.activeKeyId).equal('2026-02');
    expect(rotated.decrypt(encrypted, 'connections/1')).include({ isStale: true });
    expect(rotated.decrypt(rotated.encrypt('s3cret', 'a'), 'a')).deep.equal({ secret: 's3cret', isStale: false });
  });

  it('names the id of a missing key, and reveals neither key nor secret', () => {
    const unknown = createSecretCipher([second]).encrypt('s3cret', 'a');
    expect(() => cipher.decrypt(unknown, 'a'))
      .throw(AppError, '2026-02')
      .satisfy((error: AppError) => !error.message.includes('s3cret') && error.cause === undefined);
  });
});
