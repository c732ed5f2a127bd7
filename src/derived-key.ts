import { hkdfSync } from 'node:crypto';

/** Derives one key per purpose (HKDF, RFC 5869): a signature for one purpose is not valid for another. */
export function deriveKey(
  secret: string,
  purpose: 'cursors' | 'file-addresses' | 'export-addresses' | 'judged-texts' | 'request-fingerprints' | 'signed-urls',
): Buffer {
  return Buffer.from(hkdfSync('sha256', secret, '', purpose, 32));
}
