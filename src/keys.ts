import { createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto';

/** A key of AES-256, by the name that stands before what it has sealed. */
export type EncryptionKey = { id: string; key: Buffer };

const keyBytes = 32;

/** The keys of a text `id:base64,id:base64`, the sealing one first. Throws what they must be, and quotes none. */
export function encryptionKeys(text: string): EncryptionKey[] {
  const keys = text.split(',').map((item) => {
    const [, id, encoded = ''] = /^\s*([\w-]{1,32}):([A-Za-z0-9+/]+={0,2})\s*$/.exec(item) ?? [];
    const key = Buffer.from(encoded, 'base64');
    if (id === undefined || key.length !== keyBytes) {
      throw new Error(`must be id:key with commas between several, each key ${keyBytes} bytes in base64`);
    }
    return { id, key };
  });
  if (new Set(keys.map(({ id }) => id)).size < keys.length) throw new Error('must name each key differently');
  return keys;
}

const minModulusBits = 2_048;
const pemBlock = /-----BEGIN ([A-Z ]+)-----[^-]+-----END \1-----/g;

/** The PEM as given; throws what it must be when it is no key that can sign access tokens. */
export function signingKeyPem(text: string): string {
  if (isRsa(() => createPrivateKey(text))) return text;
  throw new Error(`must be an unencrypted RSA private key (PEM) of at least ${minModulusBits} bits`);
}

/** The keys of a text, one PEM each; of a private one the public half counts. Throws what they must be. */
export function verifyKeyPems(text: string): string[] {
  const pems = text.match(pemBlock) ?? [];
  if (pems.length > 0 && pems.every((pem) => isRsa(() => createPublicKey(pem)))) return pems;
  throw new Error(`must be unencrypted RSA keys (PEM), one after the other, of at least ${minModulusBits} bits`);
}

function isRsa(read: () => KeyObject): boolean {
  try {
    const { asymmetricKeyType, asymmetricKeyDetails } = read();
    return asymmetricKeyType === 'rsa' && (asymmetricKeyDetails?.modulusLength ?? 0) >= minModulusBits;
  } catch {
    // What the parser says helps nobody, and it might quote the key.
    return false;
  }
}
