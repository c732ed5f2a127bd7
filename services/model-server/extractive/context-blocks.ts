/** A passage of a document as the application puts it into the prompt. */
export type ContextBlock = {
  /** The same for all blocks of one request. */
  nonce: string;
  /** The number that a citation of this passage carries. */
  number: number;
  /** Its name. */
  document: string;
  text: string;
};

/** The name of a document has at most 255 characters. */
const BLOCK = /<<([a-z0-9]{8,}) (\d+) \|([^\n]{0,400}?)>>[^\S\n]*\n([\s\S]*?)\n?<<end \1 \2>>/g;
/** U+02C6 stands for a space in text that is marked as data. */
const DATAMARK = /\u02c6/g;

/**
 * Takes the numbered blocks out of a message:
 * `<<{nonce} {n} | {document name} | p. {page}>>`, the text on its own lines, `<<end {nonce} {n}>>`.
 * What looks like a block inside another one's text is part of that text: its author does not know the nonce.
 */
export function separateContext(content: string): { blocks: ContextBlock[]; rest: string } {
  const blocks = [...content.matchAll(BLOCK)].map(([, nonce = '', number, document = '', text = '']) => ({
    nonce,
    number: Number(number),
    document: document
      .replace(/\|[^|]*$/, '')
      .replace(DATAMARK, ' ')
      .trim(),
    text: text.replace(DATAMARK, ' '),
  }));
  return { blocks, rest: content.replace(BLOCK, '\n').trim() };
}
