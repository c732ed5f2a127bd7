import { countTokens } from 'gpt-tokenizer/encoding/o200k_base';
import { O200K_TOKEN_SPLIT_REGEX } from 'gpt-tokenizer/encodingParams/constants';
import type { TokenCounter, TokenRuler } from '#src/domain/tokens.ts';

// User text may contain "<|endoftext|>": it is text, never a control token, and must not throw.
const plainText = { allowedSpecial: new Set<string>(), disallowedSpecial: new Set<string>() };

/** Byte-pair merging is quadratic in the length of one word, so an unbroken run is counted in pieces of this length. */
const maxWordLength = 512;
const maxMemoizedTexts = 50_000;
const maxEdgeLength = 32;

/**
 * Counts o200k_base tokens. The text is cut into words by the tokenizer's own pattern and each distinct word is
 * merged once, so that a whole document costs no more than one plain encoding of it.
 */
export function createTokenCounter(): TokenCounter {
  const memo = new Map<string, number>();

  function countOnce(text: string): number {
    const known = memo.get(text);
    if (known !== undefined) return known;
    const tokens = countTokens(text, plainText);
    if (memo.size >= maxMemoizedTexts) memo.clear();
    memo.set(text, tokens);
    return tokens;
  }

  function count(text: string): number {
    let total = 0;
    for (const [, , tokens] of words(text)) total += tokens;
    return total;
  }

  const countEdge = (text: string) => (text === '' ? 0 : text.length <= maxEdgeLength ? countOnce(text) : count(text));

  function* words(text: string): Generator<readonly [end: number, isCut: boolean, tokens: number]> {
    for (const match of text.matchAll(O200K_TOKEN_SPLIT_REGEX)) {
      const word = match[0];
      if (word.length <= maxWordLength) {
        yield [match.index + word.length, false, countOnce(word)];
      } else {
        for (const piece of pieces(word)) {
          yield [match.index + piece.end, true, countTokens(word.slice(piece.start, piece.end), plainText)];
        }
      }
    }
  }

  /**
   * Keeps the running count at every place where the pattern starts a new word whatever comes before or after.
   * A slice is the difference of two such places and its two edges, which are a few characters long.
   */
  function measure(text: string): TokenRuler {
    const places: number[] = [0];
    const tokensBefore: number[] = [0];
    let total = 0;
    for (const [end, isCut, tokens] of words(text)) {
      total += tokens;
      if (isCut || end === text.length || alwaysStartsWord(text, end)) {
        places.push(end);
        tokensBefore.push(total);
      }
    }
    return (start, end) => {
      const first = firstAtOrAfter(places, start);
      const last = firstAtOrAfter(places, end + 1) - 1;
      const from = places[first];
      const to = places[last];
      if (from === undefined || to === undefined || from >= to) return count(text.slice(start, end));
      const inner = (tokensBefore[last] ?? 0) - (tokensBefore[first] ?? 0);
      return countEdge(text.slice(start, from)) + inner + countEdge(text.slice(to, end));
    };
  }

  return { count, measure };
}

function* pieces(word: string): Generator<{ start: number; end: number }> {
  for (let start = 0; start < word.length; ) {
    let end = Math.min(word.length, start + maxWordLength);
    const last = word.charCodeAt(end - 1);
    if (end < word.length && last >= 0xd800 && last <= 0xdbff) end++;
    yield { start, end };
    start = end;
  }
}

const letterOrDigit = /^[\p{L}\p{N}]$/u;
const continuesWord = /^[\p{L}\p{N}\p{M}\p{Cs}'’]$/u;

/**
 * A word of the pattern never runs on over these places: a letter or digit before anything that is neither; a single
 * space between two visible characters; the line break before a visible character (a slash may follow it in a word).
 */
function alwaysStartsWord(text: string, offset: number): boolean {
  const before = text.charAt(offset - 1);
  const after = text.charAt(offset);
  if (after === ' ' && !isSpace(before) && !isSpace(text.charAt(offset + 1))) return true;
  if (before === '\n') return after !== '/' && !isSpace(after);
  return letterOrDigit.test(before) && !continuesWord.test(after);
}

function isSpace(character: string): boolean {
  return character === '' || character.trim() === '';
}

function firstAtOrAfter(sorted: readonly number[], value: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((sorted[middle] ?? 0) < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
