import { createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto';

/** An AES-256 key. Its id is stored with each ciphertext. */
export type EncryptionKey = { id: string; key: Buffer };

const keyBytes = 32;

/** Parses `id:base64,id:base64`; the first key encrypts. Throws an error that does not quote the keys. */
export function parseEncryptionKeys(text: string): EncryptionKey[] {
  const keys = text.split(',').map((item) => {
    const [, id, encoded = ''] = /^\s*([\w-]{1,32}):([A-Za-z0-9+/]+={0,2})\s*$/.exec(item) ?? [];
    const key = Buffer.from(encoded, 'base64');
    if (id === undefined || key.length !== keyBytes) {
      throw new Error(`must be id:key, separated by commas, each key ${keyBytes} bytes in base64`);
    }
    return { id, key };
  });
  if (new Set(keys.map(({ id }) => id)).size < keys.length) throw new Error('must have a different id for each key');
  return keys;
}

const minModulusBits = 2_048;
const pemBlock = /-----BEGIN ([A-Z ]+)-----[^-]+-----END \1-----/g;

/** Returns the PEM if it is a key that can sign access tokens, or throws an error that says what it must be. */
export function checkSigningKeyPem(text: string): string {
  if (isRsa(() => createPrivateKey(text))) return text;
  throw new Error(`must be an unencrypted RSA private key (PEM) of at least ${minModulusBits} bits`);
}

/** Parses public keys (PEM), one after the other; of a private key its public key is used. */
export function parseVerifyKeyPems(text: string): string[] {
  const pems = text.match(pemBlock) ?? [];
  if (pems.length > 0 && pems.every((pem) => isRsa(() => createPublicKey(pem)))) return pems;
  throw new Error(`must be unencrypted RSA keys (PEM), one after the other, of at least ${minModulusBits} bits`);
}

function isRsa(read: () => KeyObject): boolean {
  try {
    const { asymmetricKeyType, asymmetricKeyDetails } = read();
    return asymmetricKeyType === 'rsa' && (asymmetricKeyDetails?.modulusLength ?? 0) >= minModulusBits;
  } catch {
    // OpenSSL's error is not passed on, because it might quote the key.
    return false;
  }
}
