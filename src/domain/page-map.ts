/** What a page holds on average, in UTF-16 code units, where a document has no pages of its own. */
const estimatedPageLength = 3_000;

/**
 * The page (from 1) of the character at `contentOffset`: one page for each start at or before it.
 * @param pageStarts ascending offsets in the body at which pages start; null or empty gives an estimate
 */
export function pageNumberAt(pageStarts: readonly number[] | null, contentOffset: number): number {
  if (pageStarts === null || pageStarts.length === 0) return 1 + Math.floor(contentOffset / estimatedPageLength);
  let low = 0;
  let high = pageStarts.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((pageStarts[middle] ?? Infinity) <= contentOffset) low = middle + 1;
    else high = middle;
  }
  return Math.max(1, low);
}

/** Of a body without pages of its own, by the same estimate: the page of its last character. */
export function estimatedPageCount(charCount: number): number {
  return charCount === 0 ? 0 : pageNumberAt(null, charCount - 1);
}
