import { sentences } from './sentences.ts';

export type DropReason = 'out_of_range' | 'unreadable' | 'unsupported';
/** `n` is the passage's number in the prompt. */
export type DroppedCitation = { n: number; reason: DropReason };

/**
 * A marker with the space before it: `[2]` or `[1, 3]`, up to 24 characters, which hold all eight passages of a prompt.
 * A longer list of numbers is data.
 */
const marker = /([ \t]?)\[(?=[\d,\s]{1,22}\])(\d{1,2}(?:\s*,\s*\d{1,2})*)\]/g;
/** The end of a text that more text may make a marker of, or that goes with one. */
const unfinished = /[ \t]?(?:\[[\d,\s]{0,22})?$/;
const unfinishedCharacters = 24;
const openBracket = /\[[\d,\s]{0,22}$/;
const wordEnd = /[\p{L}\p{N}_]$/u;

/** Longer than any statement worth checking. */
const statementCharacters = 1_000;

/**
 * Makes the markers of a reply agree with its citations while the reply is written: `[k]` in the rewritten text means
 * `cited[k - 1]`. The model numbers passages as its prompt does; here they are numbered by their first mention. A number
 * whose citation does not hold is left out; a marker without any number goes together with the space before it.
 *
 * Text directly after a letter, a digit or `_` that only names passages that do not exist stays: it is code like `a[12]`
 * rather than a citation, and since there are never more citations than passages, it cannot be taken for one.
 *
 * @param passages passage n of the prompt is `passages[n - 1]`
 * @param check why the passage is no source of the statement, or null when it is one; called for one marker after the
 *   other, in their order
 */
export function createMarkerRewriter<Passage>(
  passages: readonly Passage[],
  check: (passage: Passage, statement: string) => Promise<Exclude<DropReason, 'out_of_range'> | null>,
) {
  const cited: Passage[] = [];
  const dropped = new Map<number, DropReason>();
  /** The end of what the model wrote. */
  let said = '';

  function hear(text: string): void {
    said = (said + text).slice(-statementCharacters);
  }

  function numberOf(passage: Passage): number {
    if (!cited.includes(passage)) cited.push(passage);
    return cited.indexOf(passage) + 1;
  }

  async function rewriteMarker(original: string, space: string, list: string): Promise<string> {
    const named = [...new Set(numbersOf(list))];
    const isCode = space === '' && wordEnd.test(said) && named.every((n) => passages[n - 1] === undefined);
    if (isCode) return original;
    const statement = statementBefore(said);
    const kept: number[] = [];
    for (const n of named) {
      const passage = passages[n - 1];
      const reason = passage === undefined ? 'out_of_range' : await check(passage, statement);
      if (passage !== undefined && reason === null) kept.push(numberOf(passage));
      else if (reason !== null) dropped.set(n, reason);
    }
    if (kept.length > 0) return `${space}[${kept.join(', ')}]`;
    // What is around the marker must not close up to another one, as in "[[9]1]".
    return openBracket.test(said) ? `${space}[]` : '';
  }

  async function* rewriteText(text: string): AsyncGenerator<string> {
    let from = 0;
    for (const match of text.matchAll(marker)) {
      const [original, space = '', list = ''] = match;
      const before = text.slice(from, match.index);
      yield before;
      hear(before);
      yield await rewriteMarker(original, space, list);
      hear(original);
      from = match.index + original.length;
    }
    const rest = text.slice(from);
    yield rest;
    hear(rest);
  }

  async function* rewriteAll(pieces: AsyncIterable<string>): AsyncGenerator<string> {
    let held = '';
    for await (const piece of pieces) {
      const text = held + piece;
      held = unfinished.exec(text.slice(-unfinishedCharacters))?.[0] ?? '';
      yield* rewriteText(text.slice(0, text.length - held.length));
    }
    yield held;
  }

  return {
    /** The reply as it goes out, each part as soon as it is certain; however it is cut into pieces, the text is the same. */
    async *rewrite(pieces: AsyncIterable<string>): AsyncGenerator<string> {
      for await (const text of rewriteAll(pieces)) if (text !== '') yield text;
    },

    /** What the rewritten text cites, and which numbers of the prompt were left out of it (each once). */
    found: (): { cited: readonly Passage[]; dropped: DroppedCitation[] } => ({
      cited,
      dropped: [...dropped].map(([n, reason]) => ({ n, reason })),
    }),
  };
}

/** A rewritten reply without its markers: its numbers mean nothing beside the passages of another prompt. */
export function withoutMarkers(reply: string, citationCount: number): string {
  return reply.replace(marker, (original, _space, list: string) =>
    numbersOf(list).every((k) => k >= 1 && k <= citationCount) ? '' : original,
  );
}

/** The sentence that a marker at the end of the text belongs to: the one so far, or the one that just ended. */
export function statementBefore(text: string): string {
  const plain = text.replace(marker, '').trimEnd();
  const lineStart = Math.max(plain.lastIndexOf('\n'), plain.lastIndexOf('\r')) + 1;
  const sentence = sentences(plain, lineStart).at(-1);
  return sentence === undefined ? '' : plain.slice(sentence.start, sentence.end).trim();
}

function numbersOf(list: string): number[] {
  return list.split(',').map(Number);
}
