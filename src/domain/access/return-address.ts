/**
 * Validates the URL to which a browser returns after a consent or sign-in, to prevent open redirects.
 * @param home base URL without a trailing slash. With null, a valid path is returned as a normalized path, which the
 * browser resolves.
 * @returns a URL with the origin of `home` or one of `origins`, otherwise null. A path is appended to `home`, and `..`
 * in it may leave the path of `home`.
 */
export function validateReturnUrl(
  text: string,
  { home, origins }: { home: string | null; origins: readonly string[] },
): string | null {
  // Browsers ignore white space and control characters in a URL or read a backslash as a slash, and would open another
  // URL.
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
