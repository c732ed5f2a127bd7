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
