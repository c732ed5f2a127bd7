import { lines } from './markdown-blocks.ts';
import { sentences } from './sentences.ts';

/** Below this a passage does not carry the statement that cites it. */
const minSupport = 0.35;
/** A passage this similar is taken as the source of a statement that cites nothing. */
const minAttribution = 0.6;

/** A sentence of a reply without its markers, and the passage numbers that the markers name. */
export type Statement = { text: string; cited: readonly number[] };

/** A passage that was in the prompt. `isReadable` says whether the caller may (still) read its chunk. */
export type CitedPassage = { number: number; chunkId: string; documentId: string; isReadable: boolean; text: string };

export type Citation = { chunkId: string; documentId: string };
export type DroppedCitation = { n: number; reason: 'out_of_range' | 'unreadable' | 'unsupported' };

const markers = /\[(\d{1,2}(?:\s*,\s*\d{1,2})*)\]/g;
const markersAfterStop = /(?<![.!?…])([.!?…]+["'”’)]*)[^\S\n]*((?:\[\d{1,2}(?:\s*,\s*\d{1,2})*\][^\S\n]*)+)/g;

/** Splits a reply into statements. Markers after a full stop belong to the sentence that it ends. */
export function citedStatements(reply: string): Statement[] {
  const text = reply.replace(markersAfterStop, ' $2$1 ');
  return [...lines(text)]
    .flatMap((line) => sentences(text, line.start, line.end))
    .map(({ start, end }) => {
      const sentence = text.slice(start, end);
      return {
        text: plain(sentence),
        cited: [...sentence.matchAll(markers)].flatMap(([, list = '']) => numbers(list)),
      };
    })
    .filter((statement) => statement.text !== '' || statement.cited.length > 0);
}

/**
 * The sources of a reply, each once, in the order of their first mention. A citation is kept when its number names a
 * readable passage that supports one of the statements citing it: support = max(cosine, share of the statement's
 * content words that the passage has) ≥ 0.35. A reply without any marker is attributed: each statement to its most
 * similar passage, if that reaches 0.6.
 * @param deps.similarity cosine of a statement's and a passage's embedding; 0 where there is none
 * @param deps.contentWords stems without stop-words
 */
export function resolveCitations(
  statements: readonly Statement[],
  passages: readonly CitedPassage[],
  deps: {
    similarity: (statement: Statement, passage: CitedPassage) => number;
    contentWords: (text: string) => readonly string[];
  },
): { citations: Citation[]; dropped: DroppedCitation[] } {
  const mentioned = [...new Set(statements.flatMap((statement) => statement.cited))];
  if (mentioned.length === 0) return { citations: attributed(statements, passages, deps.similarity), dropped: [] };

  const cited: CitedPassage[] = [];
  const dropped: DroppedCitation[] = [];
  for (const n of mentioned) {
    const passage = passages.find((candidate) => candidate.number === n);
    if (!passage) dropped.push({ n, reason: 'out_of_range' });
    else if (!passage.isReadable) dropped.push({ n, reason: 'unreadable' });
    else {
      const words = new Set(deps.contentWords(passage.text));
      const isSupported = statements
        .filter((statement) => statement.cited.includes(n))
        .some(
          (statement) =>
            Math.max(deps.similarity(statement, passage), shareOf(deps.contentWords(statement.text), words)) >=
            minSupport,
        );
      if (isSupported) cited.push(passage);
      else dropped.push({ n, reason: 'unsupported' });
    }
  }
  return { citations: asCitations(cited), dropped };
}

function attributed(
  statements: readonly Statement[],
  passages: readonly CitedPassage[],
  similarity: (statement: Statement, passage: CitedPassage) => number,
): Citation[] {
  const readable = passages.filter((passage) => passage.isReadable);
  const sources = statements.flatMap((statement) => {
    const [best] = readable
      .map((passage) => ({ passage, score: similarity(statement, passage) }))
      .sort((a, b) => b.score - a.score);
    return best && best.score >= minAttribution ? [best.passage] : [];
  });
  return asCitations(sources);
}

function asCitations(passages: readonly CitedPassage[]): Citation[] {
  const byChunk = new Map(passages.map(({ chunkId, documentId }) => [chunkId, { chunkId, documentId }]));
  return [...byChunk.values()];
}

function shareOf(words: readonly string[], known: ReadonlySet<string>): number {
  const distinct = new Set(words);
  if (distinct.size === 0) return 0;
  return [...distinct].filter((word) => known.has(word)).length / distinct.size;
}

function numbers(list: string): number[] {
  return list.split(',').map((item) => Number(item.trim()));
}

function plain(sentence: string): string {
  return sentence
    .replace(markers, '')
    .replace(/\s+/g, ' ')
    .replace(/ ([.!?…])/g, '$1')
    .trim();
}
