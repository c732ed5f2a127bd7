/**
 * Where a browser goes back to after a visit elsewhere: a path below `home`, or an address of one of the origins. Null
 * for all else, so that nobody is sent on to where a link of ours was never meant to lead.
 * @param home without a slash at its end
 */
export function returnAddress(
  text: string,
  { home, origins }: { home: string; origins: readonly string[] },
): string | null {
  // What a browser drops or takes for a slash: the address that it sees would be another one.
  if (/[\\\s\p{C}]/u.test(text)) return null;
  const isPath = text.startsWith('/') && !text.startsWith('//');
  const url = URL.parse(isPath ? `${home}${text}` : text);
  if (url === null || !/^https?:$/.test(url.protocol) || url.username !== '' || url.password !== '') return null;
  return [URL.parse(home)?.origin, ...origins].includes(url.origin) ? url.href : null;
}
