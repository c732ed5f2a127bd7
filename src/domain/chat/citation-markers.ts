import { lineSpansOf } from '../documents/markdown.ts';
import { splitSentences, type TextSpan } from '../text/words.ts';

type DropReason = 'out_of_range' | 'unreadable' | 'unsupported';
export type DroppedCitation = { n: number; reason: DropReason };

/**
 * Matches a citation marker with the space before it: `[2]` or `[1, 3]`. 24 characters are enough for all eight
 * passages of a prompt; a longer list of numbers is taken for data.
 */
const marker = /([ \t]?)\[(?=[\d,\s]{1,22}\])(\d{1,2}(?:\s*,\s*\d{1,2})*)\]/g;
const unfinishedMarker = /[ \t]?(?:\[[\d,\s]{0,22})?$/;
const maxUnfinishedMarkerLength = 24;
const openBracket = /\[[\d,\s]{0,22}$/;
const wordEnd = /[\p{L}\p{N}_]$/u;

const statementCharacters = 1_000;

/**
 * Renumbers the citation markers of a reply while it is streamed: `[k]` in the rewritten text means `cited[k - 1]`. The
 * model uses the passage numbers of its prompt; the rewritten reply numbers passages in the order of first mention.
 * Removes the numbers of citations that fail the check, and a marker without numbers with the space before it.
 * Brackets directly after a letter, a digit or `_` that name no existing passage stay: they are code like `a[12]`. They
 * cannot be mistaken for citations, because there are never more citations than passages.
 * @param passages passage n of the prompt is `passages[n - 1]`
 * @param check returns why the passage does not support the statement, or null if it does; called in the order of the
 * markers
 */
export function createCitationMarkerRewriter<Passage>(
  passages: readonly Passage[],
  check: (passage: Passage, statement: string) => Promise<Exclude<DropReason, 'out_of_range'> | null>,
) {
  const cited: Passage[] = [];
  const dropped = new Map<number, DropReason>();
  let recent = '';

  function remember(text: string): void {
    recent = (recent + text).slice(-statementCharacters);
  }

  function numberOf(passage: Passage): number {
    if (!cited.includes(passage)) cited.push(passage);
    return cited.indexOf(passage) + 1;
  }

  async function rewriteMarker(original: string, space: string, list: string): Promise<string> {
    const named = [...new Set(numbersOf(list))];
    const isCode = space === '' && wordEnd.test(recent) && named.every((n) => passages[n - 1] === undefined);
    if (isCode) return original;
    const statement = sentenceBeforeCitationMarker(recent);
    const kept: number[] = [];
    for (const n of named) {
      const passage = passages[n - 1];
      const reason = passage === undefined ? 'out_of_range' : await check(passage, statement);
      if (passage !== undefined && reason === null) kept.push(numberOf(passage));
      else if (reason !== null) dropped.set(n, reason);
    }
    if (kept.length > 0) return `${space}[${kept.join(', ')}]`;
    // Keeps empty brackets in place of a removed marker such as in "[[9]1]", because the text around it could otherwise
    // form another marker.
    return openBracket.test(recent) ? `${space}[]` : '';
  }

  async function* rewriteText(text: string): AsyncGenerator<string> {
    let from = 0;
    for (const match of text.matchAll(marker)) {
      const [original, space = '', list = ''] = match;
      const before = text.slice(from, match.index);
      yield before;
      remember(before);
      yield await rewriteMarker(original, space, list);
      remember(original);
      from = match.index + original.length;
    }
    const rest = text.slice(from);
    yield rest;
    remember(rest);
  }

  async function* rewriteAll(pieces: AsyncIterable<string>): AsyncGenerator<string> {
    let held = '';
    for await (const piece of pieces) {
      const text = held + piece;
      held = unfinishedMarker.exec(text.slice(-maxUnfinishedMarkerLength))?.[0] ?? '';
      yield* rewriteText(text.slice(0, text.length - held.length));
    }
    yield held;
  }

  return {
    /**
     * Yields the rewritten reply piece by piece, each as soon as no later text can change it; the result does not
     * depend on how the reply is split.
     */
    async *rewrite(pieces: AsyncIterable<string>): AsyncGenerator<string> {
      for await (const text of rewriteAll(pieces)) if (text !== '') yield text;
    },

    found: (): { cited: readonly Passage[]; dropped: DroppedCitation[] } => ({
      cited,
      dropped: [...dropped].map(([n, reason]) => ({ n, reason })),
    }),
  };
}

/** Removes citation markers from an earlier reply: in a new prompt their numbers name other passages. */
export function removeCitationMarkers(reply: string, citationCount: number): string {
  return reply.replace(marker, (original, _space, list: string) =>
    numbersOf(list).every((k) => k >= 1 && k <= citationCount) ? '' : original,
  );
}

/**
 * Returns the sentence to which a citation marker at the end of the text belongs, also if the marker follows the full
 * stop.
 */
export function sentenceBeforeCitationMarker(text: string): string {
  const plain = text.replace(marker, '').trimEnd();
  const lineStart = Math.max(plain.lastIndexOf('\n'), plain.lastIndexOf('\r')) + 1;
  const sentence = splitSentences(plain, lineStart).at(-1);
  return sentence === undefined ? '' : plain.slice(sentence.start, sentence.end).trim();
}

function numbersOf(list: string): number[] {
  return list.split(',').map(Number);
}

export const minCitationSupport = 0.35;
const minAttribution = 0.6;
/** Share of a statement's content words (at least three) in a passage that attributes the statement to it. */
const minWordAttribution = 0.75;
const minAttributedWords = 3;

export function splitReplyIntoStatements(reply: string): string[] {
  return statementSpansOf(reply).map(({ start, end }) => reply.slice(start, end));
}

/** The sentences of each line, without the spaces around them. */
function statementSpansOf(text: string): TextSpan[] {
  return [...lineSpansOf(text)]
    .flatMap((line) => splitSentences(text, line.start, line.end))
    .map(({ start, end }) => {
      const sentence = text.slice(start, end);
      const first = start + sentence.length - sentence.trimStart().length;
      return { start: first, end: first + sentence.trim().length };
    })
    .filter(({ start, end }) => start < end);
}

const maxQuoteLength = 300;

/**
 * Finds the sentence or line of a passage that has the largest share of a statement's content words; of equal ones the
 * shortest.
 * @param wordsOf returns the stems of the content words of a text
 * @returns its place in the passage, of at most 300 characters; null for a passage without text
 */
export function findQuote(
  statement: string,
  passage: string,
  wordsOf: (text: string) => readonly string[],
): TextSpan | null {
  const wanted = wordsOf(statement);
  const [best] = statementSpansOf(passage)
    .map((span) => ({
      ...span,
      shared: shareOfWordsInPassage(wanted, new Set(wordsOf(passage.slice(span.start, span.end)))),
    }))
    .sort((a, b) => b.shared - a.shared || a.end - a.start - (b.end - b.start));
  return best === undefined ? null : { start: best.start, end: Math.min(best.end, best.start + maxQuoteLength) };
}

/**
 * @returns how likely a passage is the source of a statement, 0 to 1: the similarity of their vectors, or the share of the
 * statement's words in the passage if that is high. Words count because the vector of a long passage averages all its
 * topics and is far from each single sentence.
 * @param words stems of the statement's content words
 */
export function scoreSentenceAttribution(
  similarity: number,
  words: readonly string[],
  passage: ReadonlySet<string>,
): number {
  const shared = new Set(words).size < minAttributedWords ? 0 : shareOfWordsInPassage(words, passage);
  return shared < minWordAttribution ? similarity : Math.max(similarity, shared);
}

/**
 * Attributes passages to a reply without citations: for each statement the best passage, if its score reaches 0.6.
 * Returns each passage once, in the order of the statements.
 * @param score see {@link scoreSentenceAttribution}
 */
export function findSourcePassages<Passage>(
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

export function shareOfWordsInPassage(statement: readonly string[], passage: ReadonlySet<string>): number {
  const distinct = new Set(statement);
  if (distinct.size === 0) return 0;
  return [...distinct].filter((word) => passage.has(word)).length / distinct.size;
}
