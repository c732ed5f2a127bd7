/** Number of UTF-16 code units per page, for formats without pages. */
const estimatedPageLength = 3_000;

/**
 * @param pageStarts ascending offsets in the body at which pages start; if null or empty, the page number is estimated
 * @returns the page number (from 1) of the character at `contentOffset`
 */
export function pageNumberAt(pageStarts: readonly number[] | null, contentOffset: number): number {
  if (pageStarts === null || pageStarts.length === 0) return 1 + Math.floor(contentOffset / estimatedPageLength);
  let low = 0;
  let high = pageStarts.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((pageStarts[middle] ?? Infinity) <= contentOffset) low = middle + 1;
    else high = middle;
  }
  return Math.max(1, low);
}

export function estimatedPageCount(charCount: number): number {
  return charCount === 0 ? 0 : pageNumberAt(null, charCount - 1);
}

/**
 * Length in words of the runs by which pages are aligned with the text. Shorter runs repeat in tables; longer ones are
 * broken by footnotes.
 */
const runLength = 4;
/**
 * Number of words at the top of a PDF page among which a run of words is searched that also stands in the Markdown
 * body.
 */
const wordsOfTop = 120;

/** In scripts without spaces each character is a word, because line breaks would split longer words differently. */
const word =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]|[\p{L}\p{N}]+/gu;

/**
 * A run of words that stands once on a page of the PDF and once in the Markdown body, and so tells where the page lies
 * in the body; `inPages` and `inBody` are the indexes of its first word.
 */
type Anchor = { page: number; inPages: number; inBody: number };

/**
 * Finds the page starts of a rendered document in its text, by runs of words that occur exactly once in both, in the
 * same order. Starts of other pages, such as pages of pictures, are interpolated by their share of the words between
 * known starts, or equally if there are no words.
 * @param body the text; offsets are UTF-16 code units
 * @param pages the rendered text of each page, including headers and footers
 * @returns the offset in `body` at which each page starts: ascending, the first is 0, none beyond the end
 */
export function alignPages(body: string, pages: readonly string[]): number[] {
  const inBody = wordsOf(body);
  const printed = pages.map((page) => wordsOf(page).hashes);
  const firstWords = prefixSums(printed.map((words) => words.length));
  const inPages = printed.flat();
  const anchors = inOrder(findAnchors(inPages, firstWords, inBody.hashes));

  const known = new Map([[0, 0]]);
  for (const anchor of anchors) {
    if (known.has(anchor.page)) continue;
    const first = firstWords[anchor.page] ?? 0;
    known.set(anchor.page, inBody.offsets[topOf(anchor, first, inPages, inBody.hashes)] ?? 0);
  }
  return betweenKnown(known, firstWords, body.length);
}

/** Replaces the words of a text by hashes, to save memory for millions of words. */
function wordsOf(text: string): { hashes: number[]; offsets: number[] } {
  const hashes: number[] = [];
  const offsets: number[] = [];
  for (const match of text.matchAll(word)) {
    hashes.push(hashOf(match[0].normalize('NFKC').toLowerCase()));
    offsets.push(match.index);
  }
  return { hashes, offsets };
}

function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1) hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  return hash >>> 0;
}

function prefixSums(counts: readonly number[]): number[] {
  const before = [0];
  for (const count of counts) before.push((before.at(-1) ?? 0) + count);
  return before;
}

function findAnchors(inPages: number[], firstWords: number[], inBody: number[]): Anchor[] {
  const candidates = new Map<number, Anchor & { timesInPages: number; timesInBody: number }>();
  for (let page = 0; page + 1 < firstWords.length; page += 1) {
    const first = firstWords[page] ?? 0;
    const end = Math.min(first + wordsOfTop, (firstWords[page + 1] ?? 0) - runLength + 1);
    for (let place = first; place < end; place += 1) {
      const run = runAt(inPages, place);
      if (!candidates.has(run))
        candidates.set(run, { page, inPages: place, inBody: -1, timesInPages: 0, timesInBody: 0 });
    }
  }
  eachRun(inPages, (run) => {
    const candidate = candidates.get(run);
    if (candidate) candidate.timesInPages += 1;
  });
  eachRun(inBody, (run, place) => {
    const candidate = candidates.get(run);
    if (!candidate) return;
    candidate.timesInBody += 1;
    candidate.inBody = place;
  });
  return [...candidates.values()].filter((candidate) => candidate.timesInPages === 1 && candidate.timesInBody === 1);
}

function eachRun(words: number[], visit: (run: number, place: number) => void): void {
  for (let place = 0; place + runLength <= words.length; place += 1) visit(runAt(words, place), place);
}

function runAt(words: number[], place: number): number {
  let hash = 0;
  for (let index = place; index < place + runLength; index += 1)
    hash = Math.imul(hash, 0x9e3779b1) + (words[index] ?? 0);
  return hash >>> 0;
}

/** Selects the longest list of anchors that are in the same order on the pages and in the body. */
function inOrder(anchors: Anchor[]): Anchor[] {
  const byPages = anchors.toSorted((one, other) => one.inPages - other.inPages);
  /** `ends`: index of the anchor that ends the best sequence of each length. `before`: predecessor of each anchor. */
  const ends: number[] = [];
  const before: number[] = [];
  const bodyIndexOf = (index: number | undefined) => (index === undefined ? -1 : (byPages[index]?.inBody ?? -1));
  for (const [index, { inBody }] of byPages.entries()) {
    let low = 0;
    let high = ends.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (bodyIndexOf(ends[middle]) < inBody) low = middle + 1;
      else high = middle;
    }
    before[index] = ends[low - 1] ?? -1;
    ends[low] = index;
  }
  const chosen: Anchor[] = [];
  for (let index = ends.at(-1) ?? -1; index >= 0; index = before[index] ?? -1) {
    const anchor = byPages[index];
    if (anchor) chosen.push(anchor);
  }
  return chosen.reverse();
}

/** Returns where the page begins in the body: walks back from a shared run of words while both texts agree. */
function topOf(anchor: Anchor, firstWord: number, inPages: number[], inBody: number[]): number {
  let { inPages: place, inBody: top } = anchor;
  while (place > firstWord && top > 0 && inPages[place - 1] === inBody[top - 1]) {
    place -= 1;
    top -= 1;
  }
  return top;
}

function betweenKnown(known: ReadonlyMap<number, number>, firstWords: number[], bodyLength: number): number[] {
  const pages = firstWords.length - 1;
  const fixed = [...known, [pages, bodyLength] as const].sort(([one], [other]) => one - other);
  const starts: number[] = [];
  for (const [index, [page, start]] of fixed.entries()) {
    const next = fixed[index + 1];
    if (next === undefined) break;
    const [nextPage, nextStart] = next;
    const words = (firstWords[nextPage] ?? 0) - (firstWords[page] ?? 0);
    for (let between = page; between < nextPage; between += 1) {
      const share =
        words === 0
          ? (between - page) / (nextPage - page)
          : ((firstWords[between] ?? 0) - (firstWords[page] ?? 0)) / words;
      starts.push(start + Math.round(share * (nextStart - start)));
    }
  }
  return starts;
}
