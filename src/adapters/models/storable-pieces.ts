import { toStorable } from '#src/domain/text/plain-text.ts';

/**
 * Makes a text storable while it arrives in pieces. A character that is cut between two pieces is held back until the
 * second half is there.
 */
export function createStorablePieces() {
  let half = '';
  return {
    next(piece: string): string {
      const text = half + piece;
      half = /[\ud800-\udbff]$/.exec(text)?.[0] ?? '';
      return toStorable(text.slice(0, text.length - half.length));
    },
    /** What is left when no more pieces come. */
    rest: () => toStorable(half),
  };
}
