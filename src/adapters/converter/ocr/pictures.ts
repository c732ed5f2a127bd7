/**
 * Which pictures are to be read: those of an image file but for the pages that are known, or drawn pages of a document
 * that come in through the input in this order, out of `pageCount` that there are to be read in all.
 */
export type Pictures =
  | { from: 'file'; path: string; known: number[] }
  | { from: 'input'; pages: number[]; pageCount: number };
