import { hkdfSync } from 'node:crypto';

/** Derives a separate key for each purpose (HKDF, RFC 5869), so that a signature for one is not valid for another. */
export function deriveKey(
  secret: string,
  purpose: 'cursors' | 'file-addresses' | 'export-addresses' | 'judged-texts' | 'request-fingerprints',
): Buffer {
  return Buffer.from(hkdfSync('sha256', secret, '', purpose, 32));
}
