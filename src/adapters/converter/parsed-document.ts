/** What a format's parser gives back; the converter cleans and checks it. */
export type ParsedDocument = {
  /** Markdown: the whole, or one for each slide, sheet or page, in their order, where some may be empty. */
  body: string | string[];
  /** The title that the document itself states, or null. */
  title: string | null;
};

/** One format. It runs in a process of its own unless the converter says why not, and throws AppErrors. */
export type DocumentParser = (source: {
  bytes: Buffer;
  fileName: string;
  /** Of text, as whoever gave the file has named it. */
  encoding?: string | undefined;
}) => Promise<ParsedDocument> | ParsedDocument;

/** What programs write for a title when nobody gave one. */
const emptyTitle =
  /^(?:\(?anonymous\)?|untitled.*|(?:microsoft word|powerpoint presentation)\b.*|.*\.\w{2,5}|[^\p{L}\p{N}]*)$/iu;

/** The title among a document's properties; null when it says nothing. */
export function statedTitle(title: string): string | null {
  const text = title.trim().replace(/\s+/g, ' ');
  return emptyTitle.test(text) ? null : text;
}
