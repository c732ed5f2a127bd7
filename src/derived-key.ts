import { hkdfSync } from 'node:crypto';

/** A key of its own for each purpose (RFC 5869): what is signed for one is worth nothing for another. */
export function derivedKey(
  secret: string,
  purpose: 'cursors' | 'file-addresses' | 'export-addresses' | 'judged-texts' | 'request-fingerprints',
): Buffer {
  return Buffer.from(hkdfSync('sha256', secret, '', purpose, 32));
}
