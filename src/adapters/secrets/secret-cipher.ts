import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { appError } from '#src/errors.ts';
import type { SecretCipher } from '#src/ports/encryption.ts';

const algorithm = 'aes-256-gcm';
const nonceBytes = 12;
const tagBytes = 16;

/** Encrypts with the first key: `<key id>:<base64 of nonce, ciphertext, tag>`. Safe for 2^32 secrets per key. */
export function createSecretCipher(keys: readonly { id: string; key: Buffer }[]): SecretCipher {
  const [active] = keys;
  if (active === undefined) throw new Error('ENCRYPTION_KEYS has no key');
  const byId = new Map(keys.map(({ id, key }) => [id, key]));

  return {
    activeKeyId: active.id,

    encrypt(secret, associatedData) {
      const { id, key } = active;
      const nonce = randomBytes(nonceBytes);
      const cipher = createCipheriv(algorithm, key, nonce, { authTagLength: tagBytes });
      cipher.setAAD(authenticated(id, associatedData));
      const parts = [nonce, cipher.update(secret, 'utf8'), cipher.final(), cipher.getAuthTag()];
      return `${id}:${Buffer.concat(parts).toString('base64')}`;
    },

    decrypt(encrypted, associatedData) {
      const [id = '', encoded = ''] = encrypted.split(':');
      const key = byId.get(id);
      if (key === undefined) throw unreadable(`The key ${JSON.stringify(id)} is not among ENCRYPTION_KEYS.`);
      const bytes = Buffer.from(encoded, 'base64');
      if (bytes.length < nonceBytes + tagBytes)
        throw unreadable('The stored value is too short to be an encrypted secret.');
      const decipher = createDecipheriv(algorithm, key, bytes.subarray(0, nonceBytes), { authTagLength: tagBytes });
      decipher.setAAD(authenticated(id, associatedData)).setAuthTag(bytes.subarray(-tagBytes));
      try {
        const secret =
          decipher.update(bytes.subarray(nonceBytes, -tagBytes), undefined, 'utf8') + decipher.final('utf8');
        return { secret, isStale: id !== active.id };
      } catch {
        throw unreadable('The secret was encrypted with another key or for another row, or was changed.');
      }
    },
  };
}

function authenticated(keyId: string, associatedData: string): Buffer {
  return Buffer.from(`${keyId}:${associatedData}`);
}

function unreadable(detail: string) {
  return appError('credentials_unreadable', { detail });
}
