import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { appError } from '#src/errors.ts';
import type { SecretBox } from '#src/ports/secret-box.ts';

const algorithm = 'aes-256-gcm';
const nonceBytes = 12;
const tagBytes = 16;

/**
 * Writes `<key id>:<base64 of nonce, ciphertext and tag>` (NIST SP 800-38D: a random nonce of 96 bits for each, which
 * does for 2^32 secrets a key). The id and the place are authenticated with it.
 * @param keys of 32 bytes each; the first seals
 */
export function createSecretBox(keys: readonly { id: string; key: Buffer }[]): SecretBox {
  const [sealing] = keys;
  if (sealing === undefined) throw new Error('there is no key to seal with');
  const byId = new Map(keys.map(({ id, key }) => [id, key]));

  return {
    sealingKeyId: sealing.id,

    seal(secret, place) {
      const { id, key } = sealing;
      const nonce = randomBytes(nonceBytes);
      const cipher = createCipheriv(algorithm, key, nonce, { authTagLength: tagBytes });
      cipher.setAAD(authenticated(id, place));
      const parts = [nonce, cipher.update(secret, 'utf8'), cipher.final(), cipher.getAuthTag()];
      return `${id}:${Buffer.concat(parts).toString('base64')}`;
    },

    open(sealed, place) {
      const [id = '', encoded = ''] = sealed.split(':');
      const key = byId.get(id);
      if (key === undefined) throw unreadable(`The key ${JSON.stringify(id)} is not among ENCRYPTION_KEYS.`);
      const bytes = Buffer.from(encoded, 'base64');
      if (bytes.length < nonceBytes + tagBytes) throw unreadable('What is stored is no sealed secret.');
      const decipher = createDecipheriv(algorithm, key, bytes.subarray(0, nonceBytes), { authTagLength: tagBytes });
      decipher.setAAD(authenticated(id, place)).setAuthTag(bytes.subarray(-tagBytes));
      try {
        const secret =
          decipher.update(bytes.subarray(nonceBytes, -tagBytes), undefined, 'utf8') + decipher.final('utf8');
        return { secret, isStale: id !== sealing.id };
      } catch {
        throw unreadable('It was sealed by another key or for another place, or was changed.');
      }
    },
  };
}

function authenticated(keyId: string, place: string): Buffer {
  return Buffer.from(`${keyId}:${place}`);
}

function unreadable(detail: string) {
  return appError('credentials_unreadable', { detail });
}
