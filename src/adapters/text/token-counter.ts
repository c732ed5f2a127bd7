import { countTokens } from 'gpt-tokenizer/encoding/o200k_base';
import { O200K_TOKEN_SPLIT_REGEX } from 'gpt-tokenizer/encodingParams/constants';
import type { CountTokensOfSlice, TokenCounter } from '#src/domain/text/tokens.ts';

/** Words longer than this are counted in pieces, because byte-pair encoding is quadratic in the length of a word. */
const maxWordLength = 512;
const maxMemoizedWords = 50_000;

/** Counts o200k_base tokens. Each distinct word (match of the tokenizer's pattern) is encoded only once. */
export function createTokenCounter(): TokenCounter {
  const memo = new Map<string, number>();

  /** Counts special tokens such as <|endoftext|> as text, because the tokenizer's pattern splits them. */
  function countOnce(word: string): number {
    const known = memo.get(word);
    if (known !== undefined) return known;
    const tokens = countTokens(word);
    if (memo.size >= maxMemoizedWords) memo.clear();
    memo.set(word, tokens);
    return tokens;
  }

  function count(text: string): number {
    let total = 0;
    eachWord(text, (_end, _isCut, tokens) => {
      total += tokens;
    });
    return total;
  }

  /** Calls `visit` for each match of the tokenizer's pattern; the matches follow each other without gaps. */
  function eachWord(text: string, visit: (end: number, isCut: boolean, tokens: number) => void): void {
    if (text === '') return;
    const pattern = new RegExp(O200K_TOKEN_SPLIT_REGEX);
    for (let start = 0; pattern.test(text); start = pattern.lastIndex) {
      const end = pattern.lastIndex;
      const word = text.slice(start, end);
      if (word.length <= maxWordLength) {
        visit(end, false, countOnce(word));
      } else {
        for (const piece of pieces(word)) {
          visit(start + piece.end, true, countTokens(word.slice(piece.start, piece.end)));
        }
      }
    }
  }

  /**
   * Stores cumulative token counts at offsets that start a word in any context. The count of a slice is the difference
   * of two stored counts plus the tokens at its edges.
   */
  function measure(text: string): CountTokensOfSlice {
    const offsets: number[] = [0];
    const tokensBefore: number[] = [0];
    let total = 0;
    eachWord(text, (end, isCut, tokens) => {
      total += tokens;
      if (isCut || end === text.length || alwaysStartsWord(text, end)) {
        offsets.push(end);
        tokensBefore.push(total);
      }
    });
    return (start, end) => {
      const first = firstAtOrAfter(offsets, start);
      const last = firstAtOrAfter(offsets, end + 1) - 1;
      const from = offsets[first];
      const to = offsets[last];
      if (from === undefined || to === undefined || from >= to) return count(text.slice(start, end));
      const inner = (tokensBefore[last] ?? 0) - (tokensBefore[first] ?? 0);
      return count(text.slice(start, from)) + inner + count(text.slice(to, end));
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

const [space, lineBreak, slash] = [0x20, 0x0a, 0x2f];
const isLetterOrDigit = characterTest(/[\p{L}\p{N}]/u);
const continuesWord = characterTest(/[\p{L}\p{N}\p{M}\p{Cs}'’]/u);
const isVisible = characterTest(/\S/);

/**
 * True if a text can be cut at this offset without a change of its token count, because the tokenizer's pattern begins
 * a new piece there whatever surrounds it: behind a letter or digit that no letter or digit follows; before a single
 * space between two visible characters; behind a line break that visible text follows.
 */
function alwaysStartsWord(text: string, offset: number): boolean {
  const before = text.charCodeAt(offset - 1);
  const after = text.charCodeAt(offset);
  if (after === space && isVisible(before) && isVisible(text.charCodeAt(offset + 1))) return true;
  if (before === lineBreak) return after !== slash && isVisible(after);
  return isLetterOrDigit(before) && !continuesWord(after);
}

function characterTest(pattern: RegExp): (unit: number) => boolean {
  const ascii = Array.from({ length: 128 }, (_, unit) => pattern.test(String.fromCharCode(unit)));
  return (unit) => ascii[unit] ?? (!Number.isNaN(unit) && pattern.test(String.fromCharCode(unit)));
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
