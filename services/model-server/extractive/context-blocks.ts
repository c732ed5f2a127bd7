export type ContextBlock = {
  /** All context blocks of one request share the nonce. */
  nonce: string;
  number: number;
  document: string;
  text: string;
};

/** Matches a context block; the name of a document has at most 255 characters. */
const BLOCK = /<<([a-z0-9]{8,}) (\d+) \|([^\n]{0,400}?)>>[^\S\n]*\n([\s\S]*?)\n?<<end \1 \2>>/g;
/** U+02C6 stands for a space in text that is datamarked (spotlighting). */
const DATAMARK = /\u02c6/g;

/**
 * Extracts the context blocks from a message: `<<{nonce} {n} | {document name} | p. {page}>>`, the text on its own
 * lines, `<<end {nonce} {n}>>`. A fake block inside a passage stays text, because its author does not know the nonce.
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
