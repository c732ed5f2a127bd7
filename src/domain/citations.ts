import { lines } from './markdown-blocks.ts';
import { sentences } from './sentences.ts';

/** Below this a passage does not carry the statement that cites it. */
export const minSupport = 0.35;
/** A passage this similar is taken as the source of a statement that cites nothing. */
const minAttribution = 0.6;
/** So is one that has this share of the statement's content words, if there are enough of them to tell a subject. */
const minWordAttribution = 0.75;
const fewestAttributedWords = 3;

/** The sentences of a reply. */
export function statementsOf(reply: string): string[] {
  return [...lines(reply)]
    .flatMap((line) => sentences(reply, line.start, line.end))
    .map(({ start, end }) => reply.slice(start, end).trim())
    .filter((statement) => statement !== '');
}

/**
 * How surely a passage is the source of a statement, 0 to 1: their cosine, or the share of the statement's words where
 * that says enough. The vector of a long passage is the mean of all that it speaks of, and far from each sentence in it.
 * @param words stems of the statement's content words
 */
export function attributionScore(cosine: number, words: readonly string[], passage: ReadonlySet<string>): number {
  const shared = new Set(words).size < fewestAttributedWords ? 0 : sharedWords(words, passage);
  return shared < minWordAttribution ? cosine : Math.max(cosine, shared);
}

/**
 * The sources of a reply that names none: of each statement the likeliest passage, if its score reaches 0.6. Each
 * passage once, in the order of the statements.
 * @param score see {@link attributionScore}
 */
export function attribute<Passage>(
  statements: readonly string[],
  passages: readonly Passage[],
  score: (statement: string, passage: Passage) => number,
): Passage[] {
  const sources = statements.flatMap((statement) => {
    const [best] = passages
      .map((passage) => ({ passage, score: score(statement, passage) }))
      .sort((a, b) => b.score - a.score);
    return best && best.score >= minAttribution ? [best.passage] : [];
  });
  return [...new Set(sources)];
}

/** The share of a statement's content words that a passage has. */
export function sharedWords(statement: readonly string[], passage: ReadonlySet<string>): number {
  const distinct = new Set(statement);
  if (distinct.size === 0) return 0;
  return [...distinct].filter((word) => passage.has(word)).length / distinct.size;
}
