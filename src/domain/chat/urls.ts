export const urlStartPattern = String.raw`(?:https?|ftps?):\\?\/\\?\/|www\.(?=\S)|mailto:(?=\S)`;
const addressBegin = new RegExp(String.raw`${urlStartPattern}|:\\?\/\\?\/`, 'iy');
/** Matches the rest of a URL, up to a space, an invalid character, or `](`, which ends a link text. */
const addressRest = /(?:[^\s<>[\]\u3000-\u303f\uff00-\uffef]|\](?!\())*/y;
const closing = new Set('.,;:!?)]}\'"’”»…*_~`|\\');
/**
 * Maximum length of a URL in a reply, with the punctuation that may close it. A longer URL is removed from the reply.
 */
export const maxUrlLength = 2_048;
/**
 * Maximum number of URLs that are joined by commas or brackets without a space; a longer run is not a list of URLs.
 */
const maxJoinedAddresses = 16;

/**
 * Extracts the URLs of a text. Leaves out URLs that are too long, and all but the first 16 of a series of URLs without
 * spaces between them, which would take quadratic time.
 */
export function extractUrls(text: string): string[] {
  const addresses: string[] = [];
  let runEnd = 0;
  let end = 0;
  let together = 0;
  for (const { index } of text.matchAll(new RegExp(urlStartPattern, 'gi'))) {
    if (index >= runEnd) {
      runEnd = findEndOfUrl(text, index);
      end = index + trimClosingPunctuation(text.slice(index, runEnd)).length;
      together = 0;
    }
    together += 1;
    if (together <= maxJoinedAddresses && runEnd - index <= maxUrlLength) addresses.push(text.slice(index, end));
  }
  return addresses;
}

export function findEndOfUrl(text: string, index: number): number {
  return findEndOfContinuedUrl(text, index + lengthAt(addressBegin, text, index));
}

export function findEndOfContinuedUrl(text: string, index: number): number {
  return index + lengthAt(addressRest, text, index);
}

/** Removes closing punctuation from a URL; a regular expression would take quadratic time for a long run of it. */
export function trimClosingPunctuation(address: string): string {
  let end = address.length;
  while (closing.has(address[end - 1] ?? '')) end -= 1;
  return address.slice(0, end);
}

function lengthAt(pattern: RegExp, text: string, index: number): number {
  pattern.lastIndex = index;
  return pattern.exec(text)?.[0].length ?? 0;
}

/** Whether a text contains exactly this URL; only `http(s)://` and a trailing slash may differ. */
export function isUrlInTexts(address: string, texts: readonly string[]): boolean {
  const asked = bare(address);
  return asked !== '' && texts.some((text) => text.includes(asked) && namesIn(text).has(asked));
}

function namesIn(text: string): Set<string> {
  const words = text.split(/[\s<>"'`()[\]{}|]+/).map(trimClosingPunctuation);
  return new Set([...words, ...extractUrls(text).flatMap(balanced)].map(bare));
}

function balanced(address: string): string[] {
  return address.split('(').length > address.split(')').length ? [address, `${address})`] : [address];
}

function bare(address: string): string {
  return address
    .trim()
    .replace(/^https?:\/\//i, '')
    .replace(/\/$/, '');
}
