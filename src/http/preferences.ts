/** Nobody keeps a request open for longer. */
const longestWaitSeconds = 3_600;

/** How long a client wants to wait for work (`Prefer: wait=N`, RFC 7240 §4.3); null when it does not say. */
export function preferredWaitSeconds(prefer: string | undefined): number | null {
  const [, seconds] = /(?:^|[,;])\s*wait\s*=\s*"?(\d{1,9})"?\s*(?:[,;]|$)/i.exec(prefer ?? '') ?? [];
  return seconds === undefined ? null : Math.min(longestWaitSeconds, Number(seconds));
}

/** True when a client does not want what was kept (`Cache-Control: no-cache`, RFC 9111 §5.2.1.4). */
export function wantsFresh(cacheControl: string | undefined): boolean {
  return /(?:^|,)\s*no-cache\s*(?:,|$)/i.test(cacheControl ?? '');
}
