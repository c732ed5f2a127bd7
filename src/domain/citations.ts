import { lines } from './markdown-blocks.ts';
import { sentences } from './sentences.ts';

/** Below this a passage does not carry the statement that cites it. */
export const minSupport = 0.35;
/** A passage this similar is taken as the source of a statement that cites nothing. */
const minAttribution = 0.6;

/** The sentences of a reply. */
export function statementsOf(reply: string): string[] {
  return [...lines(reply)]
    .flatMap((line) => sentences(reply, line.start, line.end))
    .map(({ start, end }) => reply.slice(start, end).trim())
    .filter((statement) => statement !== '');
}

/**
 * The sources of a reply that names none: of each statement the most similar passage, if that reaches 0.6. Each
 * passage once, in the order of the statements.
 * @param similarity cosine of a statement's and a passage's embedding; 0 where there is none
 */
export function attribute<Passage>(
  statements: readonly string[],
  passages: readonly Passage[],
  similarity: (statement: string, passage: Passage) => number,
): Passage[] {
  const sources = statements.flatMap((statement) => {
    const [best] = passages
      .map((passage) => ({ passage, score: similarity(statement, passage) }))
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
