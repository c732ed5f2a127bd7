import { escapeHtml } from './escape-html.ts';

/** About so many characters of a text are shown, as in lists of documents. */
const previewCharacters = 280;
/** Of these so many stand before the first word that was found. */
const leadCharacters = 60;

const wordPattern = /[\p{L}\p{M}\p{N}]+/gu;
const ellipsis = '…';

type Span = { start: number; end: number };

type WantedWord = Span & { stem: string };

/**
 * The passage of a text that has most of the words asked for, closest to each other, as HTML: these words are in
 * `<mark>`, all else is escaped. Cut at the ends of words.
 * @param wantedAs what a word of the text is asked for as; undefined when it is not
 * @returns null when no word is
 */
export function markedPassage(text: string, wantedAs: (word: string) => string | undefined): string | null {
  const flat = flatten(text);
  const wanted: WantedWord[] = [];
  for (const { 0: word, index } of flat.matchAll(wordPattern)) {
    const stem = wantedAs(word);
    if (stem !== undefined) wanted.push({ stem, start: index, end: index + word.length });
  }
  const first = densest(wanted);
  if (first === undefined) return null;
  const passage = cut(flat, first.start - leadCharacters);
  let html = '';
  let at = passage.start;
  for (const { start, end } of wanted) {
    if (start < passage.start || end > passage.end) continue;
    html += `${escapeHtml(flat.slice(at, start))}<mark>${escapeHtml(flat.slice(start, end))}</mark>`;
    at = end;
  }
  return withEllipses(flat, passage, html + escapeHtml(flat.slice(at, passage.end)));
}

/** How a text begins, escaped as HTML and cut at the end of a word. */
export function beginningOf(text: string): string {
  const flat = flatten(text);
  const passage = cut(flat, 0);
  return withEllipses(flat, passage, escapeHtml(flat.slice(passage.start, passage.end)));
}

/** The first word of the passage with most different ones in the shortest space. */
function densest(words: readonly WantedWord[]): WantedWord | undefined {
  let best: { first: WantedWord; different: number; length: number } | undefined;
  for (const [index, first] of words.entries()) {
    const stems = new Set<string>();
    let end = first.end;
    for (let next = index; next < words.length; next += 1) {
      const word = words[next];
      if (word === undefined || word.end > first.start + previewCharacters - leadCharacters) break;
      if (!stems.has(word.stem)) end = word.end;
      stems.add(word.stem);
    }
    const [different, length] = [stems.size, end - first.start];
    if (
      best === undefined ||
      different > best.different ||
      (different === best.different && different > 1 && length < best.length)
    ) {
      best = { first, different, length };
    }
  }
  return best?.first;
}

/** From about a place on; a text that ends sooner is shown from further before. */
function cut(text: string, from: number): Span {
  const wished = Math.max(0, Math.min(from, text.length - previewCharacters));
  const start = wished === 0 ? 0 : wordStart(text, wished);
  const furthest = Math.min(text.length, start + previewCharacters);
  if (furthest === text.length) return { start, end: furthest };
  const lastSpace = text.lastIndexOf(' ', furthest);
  // A text without spaces is cut between two characters.
  if (lastSpace > start + previewCharacters / 2) return { start, end: lastSpace };
  return { start, end: isBetweenCharacters(text, furthest) ? furthest : furthest - 1 };
}

function wordStart(text: string, wished: number): number {
  const space = text.indexOf(' ', wished - 1);
  if (space !== -1 && space < wished + leadCharacters / 2) return space + 1;
  return isBetweenCharacters(text, wished) ? wished : wished - 1;
}

function flatten(text: string): string {
  return text.replaceAll(/\s+/gu, ' ').trim();
}

/** False in the middle of a character that takes two code units. */
function isBetweenCharacters(text: string, at: number): boolean {
  return (text.codePointAt(at - 1) ?? 0) <= 0xffff;
}

function withEllipses(text: string, { start, end }: Span, html: string): string {
  return `${start > 0 ? ellipsis : ''}${html}${end < text.length ? ellipsis : ''}`;
}
