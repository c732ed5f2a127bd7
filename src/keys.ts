import { createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto';

export type EncryptionKey = { id: string; key: Buffer };

const keyBytes = 32;

/** Parses keys of the form `id:base64,id:base64`; the first one encrypts. Errors do not quote the keys. */
export function parseEncryptionKeys(text: string): EncryptionKey[] {
  const keys = text.split(',').map((item) => {
    const [, id, encoded = ''] = /^\s*([\w-]{1,32}):([A-Za-z0-9+/]+={0,2})\s*$/.exec(item) ?? [];
    const key = Buffer.from(encoded, 'base64');
    if (id === undefined || key.length !== keyBytes) {
      throw new Error(`must be a comma-separated list of id:key pairs, each key ${keyBytes} bytes in base64`);
    }
    return { id, key };
  });
  if (new Set(keys.map(({ id }) => id)).size < keys.length) throw new Error('must not use the same key id twice');
  return keys;
}

const minModulusBits = 2_048;
const pemBlock = /-----BEGIN ([A-Z ]+)-----[^-]+-----END \1-----/g;

/** Returns the PEM text of an RSA key that can sign access tokens. Throws an error that says what is required. */
export function checkSigningKeyPem(text: string): string {
  if (isRsa(() => createPrivateKey(text))) return text;
  throw new Error(`must be an unencrypted RSA private key (PEM) of at least ${minModulusBits} bits`);
}

export function parseVerifyKeyPems(text: string): string[] {
  const pems = text.match(pemBlock) ?? [];
  if (pems.length > 0 && pems.every((pem) => isRsa(() => createPublicKey(pem)))) return pems;
  throw new Error(`must be one or more unencrypted RSA keys (PEM blocks) of at least ${minModulusBits} bits`);
}

function isRsa(read: () => KeyObject): boolean {
  try {
    const { asymmetricKeyType, asymmetricKeyDetails } = read();
    return asymmetricKeyType === 'rsa' && (asymmetricKeyDetails?.modulusLength ?? 0) >= minModulusBits;
  } catch {
    // Drops OpenSSL's error, because it might quote the key.
    return false;
  }
}
