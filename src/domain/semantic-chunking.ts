import { cosine } from './alignment-score.ts';
import { chunkUnits, type Unit } from './chunk-units.ts';
import { type Chunk, chunkBody, toChunks } from './chunking.ts';
import type { TokenCounter, TokenRuler } from './tokens.ts';

export type SemanticChunking = { method: 'semantic'; targetTokens: number; overlapTokens: number };

/** A text with fewer sentences has too few distances to tell a large one. */
const minUnits = 8;
const breakPercentile = 0.95;

/**
 * The texts whose embeddings `chunkSemantically` asks for: each sentence (or table, code block, heading) of the body
 * with its two neighbours, so that one odd sentence does not look like a new subject.
 */
export function semanticWindows(body: string, options: SemanticChunking, deps: { tokens: TokenCounter }): string[] {
  const units = chunkUnits(body, deps.tokens.measure(body), options.targetTokens);
  if (units.length < minUnits) return [];
  return units.map((_, index) =>
    body.slice(units[Math.max(0, index - 1)]?.start, units[Math.min(units.length - 1, index + 1)]?.end),
  );
}

/**
 * Cuts the body where its subject changes: between neighbours whose distance 1 − cosine is in the top twentieth.
 * A segment over the target is cut again at its largest distance; one under a quarter of it joins the nearer neighbour
 * if both fit. Chunks do not overlap. A body of fewer than eight sentences is chunked by tokens.
 * @param vectors embeddings of `semanticWindows`, in order
 */
export function chunkSemantically(
  body: string,
  options: SemanticChunking,
  vectors: readonly Float32Array[],
  deps: { tokens: TokenCounter },
): Chunk[] {
  if (vectors.length < minUnits) return chunkBody(body, { ...options, method: 'token' }, deps);
  const ruler = deps.tokens.measure(body);
  const units = chunkUnits(body, ruler, options.targetTokens);
  if (vectors.length !== units.length) throw new RangeError(`${vectors.length} vectors for ${units.length} sentences`);

  const gaps = vectors.slice(1).map((vector, index) => 1 - cosine(vectors[index] ?? vector, vector));
  const segments = joinSmall(
    segmentsAt(gaps).flatMap((segment) => splitLarge(segment, units, gaps, ruler, options.targetTokens)),
    units,
    gaps,
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

/** Units `first` to `end` (exclusive). `gaps[i]` lies between the units i and i + 1. */
type Segment = { first: number; end: number };

function segmentsAt(gaps: readonly number[]): Segment[] {
  const sorted = [...gaps].sort((a, b) => a - b);
  const threshold = sorted[Math.ceil(breakPercentile * sorted.length) - 1] ?? Infinity;
  const cuts = gaps.flatMap((gap, index) => (gap >= threshold ? [index + 1] : []));
  return [0, ...cuts].map((first, index) => ({ first, end: cuts[index] ?? gaps.length + 1 }));
}

function splitLarge(
  segment: Segment,
  units: readonly Unit[],
  gaps: readonly number[],
  ruler: TokenRuler,
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
  units: readonly Unit[],
  gaps: readonly number[],
  ruler: TokenRuler,
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

function tokensOf(segment: Segment, units: readonly Unit[], ruler: TokenRuler): number {
  return ruler(units[segment.first]?.start ?? 0, units[segment.end - 1]?.end ?? 0);
}
