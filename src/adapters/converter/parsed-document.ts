/** Result of the parser of a format. The converter cleans and checks it. */
export type ParsedDocument = {
  /** Markdown: of the whole document, or of each slide, sheet or page in order, some of which may be empty. */
  body: string | string[];
  /** The title in the document's properties or text, or null. */
  title: string | null;
};

/** Parser of one format. Runs in a child process unless the converter says why not, and throws AppErrors. */
export type DocumentParser = (source: {
  bytes: Buffer;
  fileName: string;
  /** Encoding of text as declared by the client. */
  encoding?: string | undefined;
}) => Promise<ParsedDocument> | ParsedDocument;

/** Default titles that programs write. */
const emptyTitle =
  /^(?:\(?anonymous\)?|untitled.*|(?:microsoft word|powerpoint presentation)\b.*|.*\.\w{2,5}|[^\p{L}\p{N}]*)$/iu;

/** The title in a document's properties; null if it is a default title. */
export function statedTitle(title: string): string | null {
  const text = title.trim().replace(/\s+/g, ' ');
  return emptyTitle.test(text) ? null : text;
}
