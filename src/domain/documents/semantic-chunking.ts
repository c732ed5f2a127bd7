import { cosine } from '../alignment/score.ts';
import type { TokenCounter, TokenRuler } from '../text/tokens.ts';
import { type Chunk, chunkBody, chunkUnits, toChunks, type Unit } from './chunking.ts';

export type SemanticChunking = { method: 'semantic'; targetTokens: number; overlapTokens: number };

/** With fewer sentences there are too few distances to find large ones. */
const minUnits = 8;
const breakPercentile = 0.95;
/** Characters before and after the start of a sentence in its window. Every embedding service accepts twice as many. */
const windowReach = 4_000;

/**
 * @returns the texts whose embeddings `chunkSemantically` compares: each sentence (or table, code block, heading) with its two
 * neighbours, so that one odd sentence does not look like a new topic. Empty if there are too few sentences.
 */
export function semanticWindows(body: string, options: SemanticChunking, deps: { tokens: TokenCounter }): string[] {
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

/** Cosine distance of two embeddings: 1 − cosine. */
export function subjectDistance(a: Float32Array, b: Float32Array): number {
  return 1 - cosine(a, b);
}

/**
 * Splits the body where its topic changes: between neighbours whose distance is in the top 5 %. A segment above the target is
 * split again at its largest distance; a segment below a quarter of it joins the nearer neighbour if both fit. Chunks do not
 * overlap. A body of fewer than eight sentences is chunked by tokens.
 * @param distances the `subjectDistance` from each of the `semanticWindows` to the next, in order
 */
export function chunkSemantically(
  body: string,
  options: SemanticChunking,
  distances: readonly number[],
  deps: { tokens: TokenCounter },
): Chunk[] {
  if (distances.length < minUnits - 1) return chunkBody(body, { ...options, method: 'token' }, deps);
  const ruler = deps.tokens.measure(body);
  const units = chunkUnits(body, ruler, options.targetTokens);
  if (distances.length !== units.length - 1) {
    throw new RangeError(`${distances.length} distances between ${units.length} sentences`);
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
