import { hash } from 'node:crypto';

/** A strong validator: our JSON is the same bytes for the same resource. */
export function entityTag(body: string): string {
  return `"${hash('sha256', body, 'base64url').slice(0, 22)}"`;
}

/**
 * Does a header like `If-None-Match` or `If-Match` name this tag? `W/` is ignored on both sides: a proxy that
 * compresses weakens our tags on their way.
 */
export function namesTag(header: string, tag: string): boolean {
  if (header.trim() === '*') return true;
  const opaque = (text: string) => text.trim().replace(/^W\//, '');
  return header.split(',').some((candidate) => opaque(candidate) === opaque(tag));
}
