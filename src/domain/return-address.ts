/**
 * Where a browser goes back to after a visit elsewhere: a path below `home`, or an address of one of the origins. Null
 * for all else, so that no link of ours leads to another site.
 * @param home without a slash at its end; null returns a path as a path, which the browser resolves where it is
 */
export function returnAddress(
  text: string,
  { home, origins }: { home: string | null; origins: readonly string[] },
): string | null {
  // What a browser drops or takes for a slash: the address that it sees would be another one.
  if (/[\\\s\p{C}]/u.test(text)) return null;
  const isPath = text.startsWith('/') && !text.startsWith('//');
  const base = home ?? 'http://path';
  const url = URL.parse(isPath ? `${base}${text}` : text);
  if (url === null || !/^https?:$/.test(url.protocol) || url.username !== '' || url.password !== '') return null;
  if (isPath && home === null) {
    const path = url.href.slice(url.origin.length);
    // A browser takes two slashes for the beginning of a host.
    return url.origin === base && !path.startsWith('//') ? path : null;
  }
  return [home && URL.parse(home)?.origin, ...origins].includes(url.origin) ? url.href : null;
}
