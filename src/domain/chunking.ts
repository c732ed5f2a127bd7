import { chunkUnits, type Unit } from './chunk-units.ts';
import type { BlockKind } from './markdown-blocks.ts';
import type { TokenCounter, TokenRuler } from './tokens.ts';

export type ChunkKind = BlockKind | 'ocr';

/**
 * A slice of a document's body: `body.slice(contentOffset, contentOffset + content.length) === content`.
 * Offsets are UTF-16 code units; `tokenCount` is of `content` alone; `chunkKind` is the kind of most of its text;
 * `headingPath` are the headings above the first text that is not overlap.
 */
export type Chunk = {
  index: number;
  content: string;
  contentOffset: number;
  tokenCount: number;
  chunkKind: ChunkKind;
  headingPath: readonly string[];
};

/** `overlapTokens` is less than `targetTokens`. */
export type TokenChunking = { method: 'token'; targetTokens: number; overlapTokens: number };

/**
 * Packs whole sentences into chunks of at most `targetTokens`.
 * - Each chunk begins with the trailing whole sentences of the one before, at most `overlapTokens` of them; without
 *   these overlaps the chunks' concatenation is the body. A body of white space has no chunks.
 * - A heading stays with the text after it, and begins a new chunk, without overlap, once the current one is half full.
 * - A table or code block is cut (between lines) only when it alone exceeds the target; a longer sentence or line is
 *   cut hard. No chunk exceeds the target unless a single character does.
 */
export function chunkBody(body: string, options: TokenChunking, deps: { tokens: TokenCounter }): Chunk[] {
  if (body.trim() === '') return [];
  const ruler = deps.tokens.measure(body);
  const units = chunkUnits(body, ruler, options.targetTokens);
  return toChunks(body, units, packUnits(units, ruler, options), ruler);
}

/** Units `first` to `end` (exclusive) make a chunk; those from `fresh` on were in no chunk before. */
export type UnitRange = { first: number; fresh: number; end: number };

export function toChunks(
  body: string,
  units: readonly Unit[],
  ranges: readonly UnitRange[],
  ruler: TokenRuler,
): Chunk[] {
  return ranges.map((range, index) => toChunk(body, ruler, units, range, index));
}

function packUnits(
  units: readonly Unit[],
  ruler: TokenRuler,
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

function toChunk(body: string, ruler: TokenRuler, units: readonly Unit[], range: UnitRange, index: number): Chunk {
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

/** The kind that covers most characters; headings count only when there is nothing else. */
function majorityKind(units: readonly Unit[]): ChunkKind {
  const sizes = new Map<ChunkKind, number>();
  for (const { block, start, end } of units) {
    sizes.set(block.kind, (sizes.get(block.kind) ?? 0) + (block.kind === 'heading' ? 0 : end - start));
  }
  const [largest] = [...sizes].sort((a, b) => b[1] - a[1]);
  return largest?.[0] ?? 'text';
}
