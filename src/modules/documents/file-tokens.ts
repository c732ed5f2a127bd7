import { createHmac, timingSafeEqual } from 'node:crypto';
import { parse, stringify } from 'uuid';
import { appError } from '#src/errors.ts';

/** Which content of which document an address gives. `contentSha256` is hex. */
export type SignedFile = { orgId: string; documentId: string; contentSha256: string };

export type FileTokens = {
  sign(file: SignedFile, expiresAt: Date): string;
  /** Throws `file_url_invalid` for what was not signed here, `file_url_expired` for what was. */
  open(token: string): SignedFile;
};

const UUID_BYTES = 16;
const HASH_BYTES = 32;
const PAYLOAD_BYTES = 2 * UUID_BYTES + HASH_BYTES + 6;

/** `<organization, document, hash, end in ms><HMAC-SHA256>` in base64url. */
export function createFileTokens(key: Buffer): FileTokens {
  const signatureOf = (payload: Buffer) => createHmac('sha256', key).update(payload).digest();

  return {
    sign({ orgId, documentId, contentSha256 }, expiresAt) {
      const end = Buffer.alloc(6);
      end.writeUIntBE(expiresAt.getTime(), 0, 6);
      const payload = Buffer.concat([parse(orgId), parse(documentId), Buffer.from(contentSha256, 'hex'), end]);
      return Buffer.concat([payload, signatureOf(payload)]).toString('base64url');
    },

    open(token) {
      const bytes = Buffer.from(token, 'base64url');
      const payload = bytes.subarray(0, PAYLOAD_BYTES);
      const signature = bytes.subarray(PAYLOAD_BYTES);
      const expected = signatureOf(payload);
      if (signature.length !== expected.length || !timingSafeEqual(signature, expected)) {
        throw appError('file_url_invalid');
      }
      if (payload.readUIntBE(PAYLOAD_BYTES - 6, 6) <= Date.now()) throw appError('file_url_expired');
      return {
        orgId: stringify(payload.subarray(0, UUID_BYTES)),
        documentId: stringify(payload.subarray(UUID_BYTES, 2 * UUID_BYTES)),
        contentSha256: payload.subarray(2 * UUID_BYTES, 2 * UUID_BYTES + HASH_BYTES).toString('hex'),
      };
    },
  };
}
