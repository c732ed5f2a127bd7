import { hash } from 'node:crypto';
import type { ExpectedVersions } from '#src/domain/expected-versions.ts';

/**
 * A strong validator: our JSON is the same bytes for the same resource. With a version, `"<version>.<hash>"`: `If-Match`
 * compares the version, `If-None-Match` all of it.
 */
export function entityTag(body: string, version?: number): string {
  const prefix = version === undefined ? '' : `${version}.`;
  return `"${prefix}${hash('sha256', body, 'base64url').slice(0, 22)}"`;
}

/**
 * Does `If-None-Match` name this tag? `W/` is ignored on both sides: a proxy that compresses weakens our tags on their
 * way.
 */
export function namesTag(header: string, tag: string): boolean {
  if (header.trim() === '*') return true;
  const opaque = (text: string) => text.trim().replace(/^W\//, '');
  return header.split(',').some((candidate) => opaque(candidate) === opaque(tag));
}

/** Reads the versions in `If-Match`. A tag without one, such as an ETag of another service, matches no version. */
export function readIfMatch(header: string | undefined): ExpectedVersions {
  if (header === undefined || header.trim() === '*') return null;
  return header.split(',').flatMap((tag) => {
    const [, version] = /^(?:W\/)?"(\d+)\.[\w-]+"$/.exec(tag.trim()) ?? [];
    return version === undefined ? [] : [Number(version)];
  });
}
