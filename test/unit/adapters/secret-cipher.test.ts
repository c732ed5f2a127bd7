import { randomBytes } from 'node:crypto';
import { expect } from 'chai';
import { createSecretCipher } from '#src/adapters/secrets/secret-cipher.ts';
import { AppError } from '#src/errors.ts';

const key = (id: string) => ({ id, key: randomBytes(32) });

function errorOf(decrypt: () => unknown): AppError {
  try {
    decrypt();
  } catch (error) {
    if (error instanceof AppError) return error;
    throw error;
  }
  throw new Error('it was decrypted');
}

describe('secret cipher', () => {
  const [first, second] = [key('2026-01'), key('2026-02')];
  const cipher = createSecretCipher([first]);

  it('decrypts a secret for the row that it was encrypted for', () => {
    const encrypted = cipher.encrypt('s3cret ключ', 'connections/1');
    expect(encrypted)
      .match(/^2026-01:/)
      .and.not.contain('s3cret');
    expect(cipher.decrypt(encrypted, 'connections/1')).deep.equal({ secret: 's3cret ключ', isStale: false });
  });

  it('encrypts the same secret differently each time', () => {
    expect(cipher.encrypt('s3cret', 'a')).not.equal(cipher.encrypt('s3cret', 'a'));
  });

  it('rejects a secret that was encrypted for another row', () => {
    const encrypted = cipher.encrypt('s3cret', 'connections/1');
    expect(errorOf(() => cipher.decrypt(encrypted, 'connections/2')).code).equal('credentials_unreadable');
  });

  it('rejects a ciphertext with a changed bit, and a truncated one', () => {
    const encrypted = cipher.encrypt('s3cret', 'a');
    const body = Buffer.from(encrypted.split(':')[1] ?? '', 'base64');
    for (let at = 0; at < body.length; at += 1) {
      const changed = Buffer.from(body);
      changed.writeUInt8(changed.readUInt8(at) ^ 1, at);
      const error = errorOf(() => cipher.decrypt(`2026-01:${changed.toString('base64')}`, 'a'));
      expect(error.code).equal('credentials_unreadable');
    }
    for (const part of ['', ':', '2026-01:', encrypted.slice(0, 20), 'no key at all', `2026-01:${'A'.repeat(37)}`]) {
      expect(errorOf(() => cipher.decrypt(part, 'a')).code, part).equal('credentials_unreadable');
    }
  });

  it('encrypts with the first key, decrypts with all, and marks secrets of an older key as stale', () => {
    const old = cipher.encrypt('s3cret', 'a');
    const rotated = createSecretCipher([second, first]);
    expect(rotated.activeKeyId).equal('2026-02');
    expect(rotated.decrypt(old, 'a')).deep.equal({ secret: 's3cret', isStale: true });
    expect(rotated.decrypt(rotated.encrypt('s3cret', 'a'), 'a')).deep.equal({ secret: 's3cret', isStale: false });
  });

  it('names the id of a missing key, and reveals neither key nor secret', () => {
    const encrypted = createSecretCipher([second]).encrypt('s3cret', 'a');
    const error = errorOf(() => cipher.decrypt(encrypted, 'a'));
    expect(error.message).contain('2026-02').and.not.contain('s3cret');
    expect(error.cause).equal(undefined);
  });

  it('rejects a secret of another key with the same id', () => {
    const encrypted = createSecretCipher([key('2026-01')]).encrypt('s3cret', 'a');
    expect(errorOf(() => cipher.decrypt(encrypted, 'a')).code).equal('credentials_unreadable');
  });
});
