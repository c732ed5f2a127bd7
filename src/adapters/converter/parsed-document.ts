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

/**
 * Makes text safe to store, to cut and to compare: Unix newlines, composed characters (NFC), no lone surrogates and
 * none of the characters that a reader cannot see: controls, zero-width spaces, text-direction overrides and tag
 * characters, which hide words from a person but not from a model. Joiners stay: scripts and emoji need them.
 */
export function cleanText(text: string): string {
  return text
    .replace(/\r\n?|[\f\v\u2028\u2029\u0085]/g, '\n')
    .toWellFormed()
    .replace(hiddenCharacters, '')
    .normalize('NFC');
}

const hiddenCharacters =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: taking control characters out is the purpose
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ufffe\uffff]|\udb40[\udc00-\udc7f]/g;

/** Cleaned Markdown: no blanks at the ends of lines, at most one empty line in a row, none at the ends. */
export function cleanMarkdown(markdown: string): string {
  return cleanText(markdown)
    .replace(/[^\S\n]+$/gm, '')
    .replace(/\n{3,}/g, '\n\n')
    .replace(/^\n+|\n+$/g, '');
}

/** `body` is cleaned; page n starts at `pageMap[n - 1]`, which is null where the parser gave no pages. */
export type CleanDocument = { body: string; pageMap: number[] | null; title: string | null };

/** Cleaning moves every offset, so pages are cleaned before they are put together. An empty page starts where it would. */
export function cleanDocument({ body, title }: ParsedDocument): CleanDocument {
  if (typeof body === 'string') return { body: cleanMarkdown(body), pageMap: null, title };
  const pageMap: number[] = [];
  const parts: string[] = [];
  let length = 0;
  for (const page of body.map(cleanMarkdown)) {
    const separator = length > 0 && page !== '' ? '\n\n' : '';
    pageMap.push(length + separator.length);
    parts.push(separator, page);
    length += separator.length + page.length;
  }
  return { body: parts.join(''), pageMap, title };
}
