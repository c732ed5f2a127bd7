/** A page of a format without pages, in characters. Page numbers of chunks are estimated by the same figure. */
const charactersPerPage = 3000;

export function estimatedPageCount(charCount: number): number {
  return Math.ceil(charCount / charactersPerPage);
}
