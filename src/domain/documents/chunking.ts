import { cosineSimilarity } from '../alignment/score.ts';
import {
  type CountTokensOfSlice,
  furthestTextEndWithinTokens,
  isCharacterBoundaryInText,
  type TokenCounter,
} from '../text/tokens.ts';
import { splitSentences, type TextSpan } from '../text/words.ts';
import { lineSpansOf, type MarkdownBlock, type MarkdownBlockKind, parseMarkdownBlocks } from './markdown.ts';

/**
 * A unit that chunks are built from: a sentence, a heading, a whole table or code block, or a part of one that is too
 * long. Units cover the body without gaps. Only whole sentences may be repeated as overlap.
 */
type TextUnit = TextSpan & { block: MarkdownBlock; isSentence: boolean };

/**
 * Splits a document's body into units of at most `maxTokens` each (a single character may exceed a very small maximum).
 */
function chunkUnits(body: string, ruler: CountTokensOfSlice, maxTokens: number): TextUnit[] {
  return parseMarkdownBlocks(body).flatMap((block) => blockUnits(body, block, ruler, maxTokens));
}

function blockUnits(body: string, block: MarkdownBlock, ruler: CountTokensOfSlice, maxTokens: number): TextUnit[] {
  const spans = splits[block.kind](body, block, ruler, maxTokens);
  const isSentence = block.kind === 'text' || block.kind === 'list';
  return spans.flatMap((span) => {
    if (ruler(span.start, span.end) <= maxTokens) return [{ ...span, block, isSentence }];
    return splitHard(body, span, ruler, maxTokens).map((part) => ({ ...part, block, isSentence: false }));
  });
}

type Split = (body: string, block: MarkdownBlock, ruler: CountTokensOfSlice, maxTokens: number) => TextSpan[];

const whole: Split = (_body, block) => [{ start: block.start, end: block.end }];

const byLineWhenTooLong: Split = (body, block, ruler, maxTokens) =>
  ruler(block.start, block.end) <= maxTokens ? whole(body, block, ruler, maxTokens) : textLines(body, block);

const splits: Record<MarkdownBlockKind, Split> = {
  text: (body, block) => splitSentences(body, block.start, block.end),
  list: (body, block) => textLines(body, block).flatMap((line) => splitSentences(body, line.start, line.end)),
  heading: whole,
  caption: whole,
  table: byLineWhenTooLong,
  code: byLineWhenTooLong,
};

/** Splits a block of text into lines with their trailing blank lines, so that no unit begins with white space. */
function textLines(body: string, block: MarkdownBlock): TextSpan[] {
  const found: TextSpan[] = [];
  for (const line of lineSpansOf(body, block.start, block.end)) {
    const previous = found.at(-1);
    if (previous && body.slice(line.start, line.end).trim() === '') previous.end = line.end;
    else found.push({ ...line });
  }
  return found;
}

/** Splits a text that exceeds the maximum at a line break, or else at white space, in the second half of each part. */
function splitHard(body: string, span: TextSpan, ruler: CountTokensOfSlice, maxTokens: number): TextSpan[] {
  const parts: TextSpan[] = [];
  for (let start = span.start; start < span.end; ) {
    const limit = furthestTextEndWithinTokens(ruler, start, span.end, maxTokens);
    const end = limit === span.end ? limit : splitPoint(body, start, limit, span.end);
    parts.push({ start, end });
    start = end;
  }
  return parts;
}

function splitPoint(body: string, start: number, limit: number, spanEnd: number): number {
  const halfway = start + ((limit - start) >>> 1);
  const split = lastSplit(body, halfway, limit, /[\r\n]/) ?? lastSplit(body, halfway, limit, /\s/);
  if (split !== null) return split;
  let end = limit;
  while (end > start && !isCharacterBoundaryInText(body, end)) end--;
  if (end > start) return end;
  end = start + 1;
  while (end < spanEnd && !isCharacterBoundaryInText(body, end)) end++;
  return end;
}

function lastSplit(body: string, from: number, to: number, space: RegExp): number | null {
  for (let end = to; end > from; end--) {
    // Does not split before white space: the next part would begin with that white space, which may be on the previous
    // page.
    if (space.test(body.charAt(end - 1)) && !/\s/.test(body.charAt(end)) && isCharacterBoundaryInText(body, end))
      return end;
  }
  return null;
}

type ChunkKind = MarkdownBlockKind | 'ocr';

/**
 * A slice of a document's body: `body.slice(contentOffset, contentOffset + content.length) === content`. Offsets are
 * UTF-16 code units; `tokenCount` counts `content` alone; `chunkKind` is the block kind of most of its text;
 * `headingPath` lists the headings above its first text that is not overlap.
 */
export type Chunk = {
  index: number;
  content: string;
  contentOffset: number;
  tokenCount: number;
  chunkKind: ChunkKind;
  headingPath: readonly string[];
};

type TokenChunking = { method: 'token'; targetTokens: number; overlapTokens: number };

/**
 * Packs whole sentences into chunks of at most `targetTokens`.
 * - Each chunk repeats the last whole sentences of the previous one, at most `overlapTokens`. Without these overlaps the
 *   chunks concatenate to the body. A body of white space has no chunks.
 * - A heading stays with the text after it. It begins a new chunk, without overlap, once the current chunk is half full.
 * - A table or code block is split (between lines) only if it alone exceeds the target; so is a sentence or line. No chunk
 *   exceeds the target unless a single character does.
 */
export function chunkByTokens(body: string, options: TokenChunking, deps: { tokens: TokenCounter }): Chunk[] {
  if (body.trim() === '') return [];
  const ruler = deps.tokens.measure(body);
  const units = chunkUnits(body, ruler, options.targetTokens);
  return toChunks(body, units, packUnits(units, ruler, options), ruler);
}

/**
 * A chunk consists of the units `first` to `end` (exclusive); units before `fresh` are overlap with the previous chunk.
 */
type UnitRange = { first: number; fresh: number; end: number };

function toChunks(
  body: string,
  units: readonly TextUnit[],
  ranges: readonly UnitRange[],
  ruler: CountTokensOfSlice,
): Chunk[] {
  return ranges.map((range, index) => toChunk(body, ruler, units, range, index));
}

function packUnits(
  units: readonly TextUnit[],
  ruler: CountTokensOfSlice,
  { targetTokens, overlapTokens }: TokenChunking,
): UnitRange[] {
  const ranges: UnitRange[] = [];
  const tokens = (first: number, end: number) => ruler(units[first]?.start ?? 0, units[end - 1]?.end ?? 0);
  const isHeading = (index: number) => units[index]?.block.kind === 'heading';

  let first = 0;
  let fresh = 0;
  for (let next = 1; next < units.length; next++) {
    const beginsSection = isHeading(next) && !isHeading(next - 1) && tokens(first, next) * 2 >= targetTokens;
    if (!beginsSection && tokens(first, next + 1) <= targetTokens) continue;

    let end = next;
    while (end > fresh && isHeading(end - 1) && tokens(end - 1, next + 1) <= targetTokens) end--;
    if (end === fresh || isHeading(end - 1)) end = next;
    ranges.push({ first, fresh, end });

    fresh = end;
    first = end;
    if (!isHeading(end)) {
      const earliest = ranges.at(-1)?.fresh ?? 0;
      while (first > earliest + 1 && units[first - 1]?.isSentence && tokens(first - 1, end) <= overlapTokens) first--;
      while (first < fresh && tokens(first, next + 1) > targetTokens) first++;
    }
  }
  if (units.length > 0) ranges.push({ first, fresh, end: units.length });
  return ranges;
}

function toChunk(
  body: string,
  ruler: CountTokensOfSlice,
  units: readonly TextUnit[],
  range: UnitRange,
  index: number,
): Chunk {
  const start = units[range.first]?.start ?? 0;
  const end = units[range.end - 1]?.end ?? body.length;
  return {
    index,
    content: body.slice(start, end),
    contentOffset: start,
    tokenCount: ruler(start, end),
    chunkKind: majorityKind(units.slice(range.first, range.end)),
    headingPath: units[range.fresh]?.block.headingPath ?? [],
  };
}

function majorityKind(units: readonly TextUnit[]): ChunkKind {
  const sizes = new Map<ChunkKind, number>();
  for (const { block, start, end } of units) {
    sizes.set(block.kind, (sizes.get(block.kind) ?? 0) + (block.kind === 'heading' ? 0 : end - start));
  }
  const [largest] = [...sizes].sort((a, b) => b[1] - a[1]);
  return largest?.[0] ?? 'text';
}

type SemanticChunking = { method: 'semantic'; targetTokens: number; overlapTokens: number };

/**
 * Minimum number of sentences for semantic chunking; with fewer there are too few distances to tell which are large.
 */
const minUnits = 8;
const breakPercentile = 0.95;
/**
 * Maximum characters of a semantic window on each side of a sentence's start; every embedder accepts both together.
 */
const windowReach = 4_000;

/**
 * @returns the texts whose embeddings `chunkSemantically` compares: each sentence (or table, code block, heading) with
 * its two neighbours, so that one odd sentence does not look like a new topic. Empty if there are too few sentences.
 */
export function windowsForSemanticChunking(
  body: string,
  options: SemanticChunking,
  deps: { tokens: TokenCounter },
): string[] {
  const units = chunkUnits(body, deps.tokens.measure(body), options.targetTokens);
  if (units.length < minUnits) return [];
  return units.map(({ start }, index) =>
    body
      .slice(
        Math.max(units[index - 1]?.start ?? start, start - windowReach),
        Math.min((units[index + 1] ?? units[index])?.end ?? body.length, start + windowReach),
      )
      .toWellFormed(),
  );
}

export function cosineDistance(a: Float32Array, b: Float32Array): number {
  return 1 - cosineSimilarity(a, b);
}

/**
 * Splits a document's body where its topic changes: between neighbours whose distance is in the top 5 %. A segment
 * above the target size is split again at its largest distance; a segment below a quarter of the target size joins the
 * nearer neighbour if both fit. Chunks do not overlap. A body of fewer than eight sentences is chunked by tokens.
 * @param distances the `cosineDistance` from each of the `windowsForSemanticChunking` to the next, in order
 */
export function chunkSemantically(
  body: string,
  options: SemanticChunking,
  distances: readonly number[],
  deps: { tokens: TokenCounter },
): Chunk[] {
  if (distances.length < minUnits - 1) return chunkByTokens(body, { ...options, method: 'token' }, deps);
  const ruler = deps.tokens.measure(body);
  const units = chunkUnits(body, ruler, options.targetTokens);
  if (distances.length !== units.length - 1) {
    throw new RangeError(
      `Semantic chunking of ${units.length} sentences needs ${units.length - 1} distances; got ${distances.length}.`,
    );
  }

  const segments = joinSmall(
    segmentsAt(distances).flatMap((segment) => splitLarge(segment, units, distances, ruler, options.targetTokens)),
    units,
    distances,
    ruler,
    options.targetTokens,
  );
  return toChunks(
    body,
    units,
    segments.map(({ first, end }) => ({ first, fresh: first, end })),
    ruler,
  );
}

type Segment = { first: number; end: number };

function segmentsAt(gaps: readonly number[]): Segment[] {
  const sorted = [...gaps].sort((a, b) => a - b);
  const threshold = sorted[Math.ceil(breakPercentile * sorted.length) - 1] ?? Infinity;
  const cuts = gaps.flatMap((gap, index) => (gap >= threshold ? [index + 1] : []));
  return [0, ...cuts].map((first, index) => ({ first, end: cuts[index] ?? gaps.length + 1 }));
}

function splitLarge(
  segment: Segment,
  units: readonly TextUnit[],
  gaps: readonly number[],
  ruler: CountTokensOfSlice,
  target: number,
): Segment[] {
  const done: Segment[] = [];
  const waiting = [segment];
  for (let next = waiting.pop(); next; next = waiting.pop()) {
    if (next.end - next.first === 1 || tokensOf(next, units, ruler) <= target) {
      done.push(next);
      continue;
    }
    const inner = gaps.slice(next.first, next.end - 1);
    const cut = next.first + inner.indexOf(inner.reduce((a, b) => Math.max(a, b), -Infinity)) + 1;
    waiting.push({ first: cut, end: next.end }, { first: next.first, end: cut });
  }
  return done;
}

function joinSmall(
  segments: readonly Segment[],
  units: readonly TextUnit[],
  gaps: readonly number[],
  ruler: CountTokensOfSlice,
  target: number,
): Segment[] {
  const joined = [...segments];
  for (let index = 0; index < joined.length; ) {
    const segment = joined[index];
    if (!segment || tokensOf(segment, units, ruler) * 4 >= target) {
      index++;
      continue;
    }
    const [nearest] = [index - 1, index]
      .flatMap((left) => {
        const [a, b] = [joined[left], joined[left + 1]];
        if (!a || !b || tokensOf({ first: a.first, end: b.end }, units, ruler) > target) return [];
        return [{ left, merged: { first: a.first, end: b.end }, gap: gaps[a.end - 1] ?? Infinity }];
      })
      .sort((a, b) => a.gap - b.gap);
    if (!nearest) {
      index++;
      continue;
    }
    joined.splice(nearest.left, 2, nearest.merged);
    index = nearest.left;
  }
  return joined;
}

function tokensOf(segment: Segment, units: readonly TextUnit[], ruler: CountTokensOfSlice): number {
  return ruler(units[segment.first]?.start ?? 0, units[segment.end - 1]?.end ?? 0);
}
