import type { Vocabulary } from './e5-file.ts';

/** Begins each word in the vocabulary. */
const WORD_BEGIN = '\u2581';
/** Added to the lowest score for a character that is in no piece, as SentencePiece does. */
const UNKNOWN_PENALTY = -10;

/**
 * Creates a tokenizer that splits each word into the pieces with the highest total score: the unigram model of
 * SentencePiece (Kudo 2018), with the word splitting of XLM-RoBERTa's fast tokenizer.
 */
export function createUnigramTokenizer(vocabulary: Vocabulary): (text: string) => number[] {
  const { pieces, scores, special, unknown, replacements } = vocabulary;
  const ids = new Map<string, number>();
  let longest = 0;
  let lowest = 0;
  pieces.forEach((piece, id) => {
    if (special.has(id)) return;
    ids.set(piece, id);
    longest = Math.max(longest, piece.length);
    lowest = Math.min(lowest, scores[id] ?? 0);
  });
  const unknownScore = lowest + UNKNOWN_PENALTY;

  function split(word: string): number[] {
    /** For each end of a prefix of the word: its best score, and the last piece with its beginning. */
    const best = new Float64Array(word.length + 1).fill(Number.NEGATIVE_INFINITY);
    const last = new Int32Array(word.length + 1);
    const from = new Int32Array(word.length + 1);
    best[0] = 0;
    const offer = (start: number, end: number, id: number, score: number) => {
      const total = (best[start] ?? 0) + score;
      if (total <= (best[end] ?? 0)) return;
      best[end] = total;
      last[end] = id;
      from[end] = start;
    };
    for (let start = 0; start < word.length; start += 1) {
      if (best[start] === Number.NEGATIVE_INFINITY) continue;
      const character = (word.codePointAt(start) ?? 0) > 0xffff ? 2 : 1;
      offer(start, start + character, unknown, unknownScore);
      for (let end = start + character; end <= Math.min(word.length, start + longest); end += 1) {
        const id = ids.get(word.slice(start, end));
        if (id !== undefined) offer(start, end, id, scores[id] ?? 0);
      }
    }
    const found: number[] = [];
    for (let end = word.length; end > 0; end = from[end] ?? 0) {
      // Neighbouring unknown characters are one token.
      if (last[end] !== unknown || found.at(-1) !== unknown) found.push(last[end] ?? unknown);
    }
    return found.reverse();
  }

  return (text) => {
    const words = normalize(text, replacements).split(/\s+/u);
    return words.flatMap((word) => (word === '' ? [] : split(`${WORD_BEGIN}${word}`)));
  };
}

/** Composes letters and their marks before, because the replacements are of single code points. */
function normalize(text: string, replacements: Vocabulary['replacements']): string {
  let normalized = '';
  for (const character of text.toWellFormed().normalize('NFC')) normalized += replacements.get(character) ?? character;
  return normalized;
}
