import { hash } from 'node:crypto';
import { isIPv6 } from 'node:net';
import type { IfMatchVersions } from '#src/errors.ts';

const networkBits = 56;
const blockBits = 48;

/**
 * Rate limits count the /56 of an IPv6 address as one client, because providers assign it to one household (RIPE-690).
 */
export function networkOfClientAddress(address: string | undefined): string {
  const plain = plainAddress(address);
  return isIPv6(plain) ? prefixOf(plain, networkBits) : plain;
}

/** Returns the /48 prefix of an IPv6 address, which companies and some servers are assigned; null for IPv4. */
export function sitePrefixOfIpv6Address(address: string | undefined): string | null {
  const plain = plainAddress(address);
  return isIPv6(plain) ? prefixOf(plain, blockBits) : null;
}

function plainAddress(address: string | undefined): string {
  const plain = (address ?? 'unknown').replace(/%.*$/, '').toLowerCase();
  return /^::ffff:(\d+\.\d+\.\d+\.\d+)$/.exec(plain)?.[1] ?? plain;
}

function prefixOf(address: string, bits: number): string {
  const [head = '', tail] = address.split('::');
  const before = head.split(':').filter(Boolean);
  const after = (tail ?? '').split(':').filter(Boolean);
  const gap = tail === undefined ? 0 : Math.max(0, 8 - before.length - after.length);
  const groups = [...before, ...Array<string>(gap).fill('0'), ...after];
  const network = groups.slice(0, Math.ceil(bits / 16)).map((group, index) => {
    const hostBits = Math.max(0, 16 * (index + 1) - bits);
    return ((Number.parseInt(group, 16) >> hostBits) << hostBits).toString(16);
  });
  return `${network.join(':')}::/${bits}`;
}

/** An ETag with a version is `"<version>.<hash>"`: `If-Match` compares the version, `If-None-Match` the whole tag. */
export function createETag(body: string, version?: number): string {
  const prefix = version === undefined ? '' : `${version}.`;
  return `"${prefix}${hash('sha256', body, 'base64url').slice(0, 22)}"`;
}

/** Whether an `If-None-Match` contains the ETag. Ignores `W/`, which compressing proxies add. */
export function matchesETag(header: string, tag: string): boolean {
  if (header.trim() === '*') return true;
  const opaque = (text: string) => text.trim().replace(/^W\//, '');
  return header.split(',').some((candidate) => opaque(candidate) === opaque(tag));
}

export function parseIfMatch(header: string | undefined): IfMatchVersions {
  if (header === undefined || header.trim() === '*') return null;
  return header.split(',').flatMap((tag) => {
    const [, version] = /^(?:W\/)?"(\d+)\.[\w-]+"$/.exec(tag.trim()) ?? [];
    return version === undefined ? [] : [Number(version)];
  });
}

const maxWaitSeconds = 3_600;

/** Parses N of `Prefer: wait=N` (RFC 7240 §4.3), at most an hour; null without the header. */
export function preferredWaitSeconds(prefer: string | undefined): number | null {
  const [, seconds] = /(?:^|[,;])\s*wait\s*=\s*"?(\d{1,9})"?\s*(?:[,;]|$)/i.exec(prefer ?? '') ?? [];
  return seconds === undefined ? null : Math.min(maxWaitSeconds, Number(seconds));
}

export function isNoCacheRequested(cacheControl: string | undefined): boolean {
  return /(?:^|,)\s*no-cache\s*(?:,|$)/i.test(cacheControl ?? '');
}

export type ByteRange = { start: number; end: number };

/**
 * Parses a `Range` header with one range. Ignores other forms, such as several ranges, which RFC 9110 allows.
 * @returns undefined for the whole file; null if the range is outside of the file
 */
export function parseByteRange(header: string | undefined, sizeBytes: number): ByteRange | null | undefined {
  const match = /^bytes=(\d*)-(\d*)$/.exec(header?.trim() ?? '');
  if (match === null) return undefined;
  const [, first = '', last = ''] = match;
  if (first === '' && last === '') return undefined;
  if (first === '') {
    const length = Math.min(Number(last), sizeBytes);
    return length === 0 ? null : { start: sizeBytes - length, end: sizeBytes - 1 };
  }
  const start = Number(first);
  if (last !== '' && Number(last) < start) return undefined;
  if (start >= sizeBytes) return null;
  return { start, end: last === '' ? sizeBytes - 1 : Math.min(Number(last), sizeBytes - 1) };
}
