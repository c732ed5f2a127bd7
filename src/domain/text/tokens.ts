/** Counts the tokens of `text.slice(start, end)` (UTF-16 units). Cheap, because the text is tokenized once. */
export type CountTokensOfSlice = (start: number, end: number) => number;

export type TokenCounter = {
  count(text: string): number;
  measure(text: string): CountTokensOfSlice;
};

/**
 * @returns the largest end, at most `limit`, for which the slice from `start` has at most `maxTokens` tokens. Searches
 * by doubling, so that its cost depends on the result and not on the length of the text.
 */
export function furthestTextEndWithinTokens(
  ruler: CountTokensOfSlice,
  start: number,
  limit: number,
  maxTokens: number,
): number {
  let fits = start;
  let reach = Math.max(1, maxTokens * 4);
  while (fits < limit && ruler(start, Math.min(limit, start + reach)) <= maxTokens) {
    fits = Math.min(limit, start + reach);
    reach *= 2;
  }
  let exceeds = Math.min(limit + 1, start + reach);
  while (exceeds - fits > 1) {
    const middle = (fits + exceeds) >>> 1;
    if (ruler(start, middle) <= maxTokens) fits = middle;
    else exceeds = middle;
  }
  return fits;
}

export function isCharacterBoundaryInText(text: string, offset: number): boolean {
  const before = text.charCodeAt(offset - 1);
  const after = text.charCodeAt(offset);
  const splitsPair = before >= 0xd800 && before <= 0xdbff && after >= 0xdc00 && after <= 0xdfff;
  return !splitsPair && !(before === 0x0d && after === 0x0a);
}

export function truncateToTokens(text: string, maxTokens: number, counter: TokenCounter): string {
  let end = furthestTextEndWithinTokens(counter.measure(text), 0, text.length, maxTokens);
  while (end > 0 && !isCharacterBoundaryInText(text, end)) end--;
  return text.slice(0, end);
}
