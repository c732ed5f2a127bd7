/**
 * Splits a text into pieces of at most `maxCharacters` UTF-16 units, at white space if possible. BERT's tokenizer never
 * joins words over white space, so the token counts of the pieces add up.
 */
export function splitAtSpaces(text: string, maxCharacters: number): string[] {
  const pieces: string[] = [];
  let start = 0;
  while (text.length - start > maxCharacters) {
    const end = lastBreak(text, start, start + maxCharacters);
    pieces.push(text.slice(start, end));
    start = end;
  }
  pieces.push(text.slice(start));
  return pieces;
}

function lastBreak(text: string, start: number, limit: number): number {
  for (let end = limit; end > start; end -= 1) {
    if (/\s/.test(text.charAt(end))) return end;
  }
  const splitsPair = /[\uD800-\uDBFF]/.test(text.charAt(limit - 1));
  return splitsPair && limit - 1 > start ? limit - 1 : limit;
}
