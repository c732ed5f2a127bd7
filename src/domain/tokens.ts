/**
 * The exact number of tokens of `text.slice(start, end)`, for one measured text. Offsets are UTF-16 code units.
 * Cheap for any slice, because the text was tokenized once.
 */
export type TokenRuler = (start: number, end: number) => number;

/** Counts tokens of one tokenizer. `count(text)` equals `measure(text)(0, text.length)`. */
export type TokenCounter = {
  count(text: string): number;
  measure(text: string): TokenRuler;
};

/**
 * The largest end, at most `limit`, for which the slice from `start` has no more than `maxTokens` tokens.
 * Looks ahead by doubling, so that its cost follows the size of the answer and not of the text.
 */
export function furthestEnd(ruler: TokenRuler, start: number, limit: number, maxTokens: number): number {
  let fits = start;
  let reach = maxTokens * 4;
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

/** True when `offset` lies between two characters and not inside a surrogate pair or a CRLF. */
export function isCharacterBoundary(text: string, offset: number): boolean {
  const before = text.charCodeAt(offset - 1);
  const after = text.charCodeAt(offset);
  const splitsPair = before >= 0xd800 && before <= 0xdbff && after >= 0xdc00 && after <= 0xdfff;
  return !splitsPair && !(before === 0x0d && after === 0x0a);
}

/** The beginning of `text` that has at most `maxTokens` tokens, never cut inside a character. */
export function truncateToTokens(text: string, maxTokens: number, counter: TokenCounter): string {
  let end = furthestEnd(counter.measure(text), 0, text.length, maxTokens);
  while (end > 0 && !isCharacterBoundary(text, end)) end--;
  return text.slice(0, end);
}
