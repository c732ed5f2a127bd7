/**
 * Validates the URL to which a browser returns after a consent or sign-in, to prevent open redirects.
 * @param home base URL without a trailing slash, to which a path is appended; if null, a valid path is returned without
 * an origin, normalized
 * @returns a URL with the origin of `home` or one of `origins`, otherwise null. With `..`, a path may leave the path of
 * `home`, but not its origin.
 */
export function validateReturnUrl(
  text: string,
  { home, origins }: { home: string | null; origins: readonly string[] },
): string | null {
  // Rejects white space, control characters and backslashes: browsers ignore them or read them as slashes, and would
  // open another URL than the validated one.
  if (/[\\\s\p{C}]/u.test(text)) return null;
  const isPath = text.startsWith('/') && !text.startsWith('//');
  const base = home ?? 'http://path';
  const url = URL.parse(isPath ? `${base}${text}` : text);
  if (url === null || !/^https?:$/.test(url.protocol) || url.username !== '' || url.password !== '') return null;
  if (isPath && home === null) {
    const path = url.href.slice(url.origin.length);
    return url.origin === base && !path.startsWith('//') ? path : null;
  }
  return [home && URL.parse(home)?.origin, ...origins].includes(url.origin) ? url.href : null;
}
