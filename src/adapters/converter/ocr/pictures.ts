/**
 * Which pictures are to be read: those of an image file but for the pages that are known, or drawn pages of a document
 * that come in through the input in this order.
 */
export type Pictures = { from: 'file'; path: string; known: number[] } | { from: 'input'; pages: number[] };
