import { escapeHtml } from '../text/plain-text.ts';
import { type TextSpan, wordSpans } from '../text/words.ts';

const previewCharacters = 280;
const leadCharacters = 60;

const ellipsis = '…';

type Match = TextSpan & { stem: string };

/**
 * Selects the passage of a text with the most different query words in the shortest space, as escaped HTML with the
 * matches in `<mark>`. Truncated at word boundaries.
 * @param matchedStem returns the query stem that a word of the text matches, or undefined
 * @returns null if the text contains no query word
 */
export function highlightBestPassage(text: string, matchedStem: (word: string) => string | undefined): string | null {
  const flat = flatten(text);
  const wanted: Match[] = [];
  for (const { start, end } of wordSpans(flat)) {
    const stem = matchedStem(flat.slice(start, end));
    if (stem !== undefined) wanted.push({ stem, start, end });
  }
  const first = densest(wanted);
  if (first === undefined) return null;
  const passage = passageFrom(flat, first.start - leadCharacters);
  let html = '';
  let at = passage.start;
  for (const { start, end } of joinOverlapping(wanted)) {
    if (start < passage.start || end > passage.end) continue;
    html += `${escapeHtml(flat.slice(at, start))}<mark>${escapeHtml(flat.slice(start, end))}</mark>`;
    at = end;
  }
  return withEllipses(flat, passage, html + escapeHtml(flat.slice(at, passage.end)));
}

export function previewOfBeginning(text: string): string {
  const flat = flatten(text);
  const passage = passageFrom(flat, 0);
  return withEllipses(flat, passage, escapeHtml(flat.slice(passage.start, passage.end)));
}

/** Joins the overlapping character pairs that Chinese, Japanese and Korean text is matched by. */
function joinOverlapping(spans: readonly TextSpan[]): TextSpan[] {
  const joined: { start: number; end: number }[] = [];
  for (const { start, end } of spans) {
    const last = joined.at(-1);
    if (last !== undefined && start < last.end) last.end = end;
    else joined.push({ start, end });
  }
  return joined;
}

function densest(words: readonly Match[]): Match | undefined {
  let best: { first: Match; different: number; length: number } | undefined;
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

/** Selects the preview passage that begins about at `from`, or earlier if the text ends before the preview is full. */
function passageFrom(text: string, from: number): TextSpan {
  const wanted = Math.max(0, Math.min(from, text.length - previewCharacters));
  const start = wanted === 0 ? 0 : wordStart(text, wanted);
  const furthest = Math.min(text.length, start + previewCharacters);
  if (furthest === text.length) return { start, end: furthest };
  const lastSpace = text.lastIndexOf(' ', furthest);
  if (lastSpace > start + previewCharacters / 2) return { start, end: lastSpace };
  return { start, end: isBetweenCharacters(text, furthest) ? furthest : furthest - 1 };
}

function wordStart(text: string, wanted: number): number {
  const space = text.indexOf(' ', wanted - 1);
  if (space !== -1 && space < wanted + leadCharacters / 2) return space + 1;
  return isBetweenCharacters(text, wanted) ? wanted : wanted - 1;
}

function flatten(text: string): string {
  return text.replaceAll(/\s+/gu, ' ').trim();
}

function isBetweenCharacters(text: string, at: number): boolean {
  return (text.codePointAt(at - 1) ?? 0) <= 0xffff;
}

function withEllipses(text: string, { start, end }: TextSpan, html: string): string {
  return `${start > 0 ? ellipsis : ''}${html}${end < text.length ? ellipsis : ''}`;
}
