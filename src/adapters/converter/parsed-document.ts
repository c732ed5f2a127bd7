import { type AppError, appError } from '#src/errors.ts';
import type { ConversionProcessLimits } from './conversion-limits.ts';

export type ParsedDocument = {
  /** Markdown of the whole document as one string, or of each slide, sheet or page in order. Pages may be empty. */
  body: string | string[];
  title: string | null;
};

/** Parser of one format; throws AppErrors. All parsers except the one for plain text run in a child process. */
export type DocumentParser = (source: {
  bytes: Buffer;
  fileName: string;
  encoding?: string | undefined;
}) => Promise<ParsedDocument> | ParsedDocument;

const emptyTitle =
  /^(?:\(?anonymous\)?|untitled.*|(?:microsoft word|powerpoint presentation)\b.*|.*\.\w{2,5}|[^\p{L}\p{N}]*)$/iu;

/** Normalizes the title in a document's properties; null if it is empty or a program's default title. */
export function discardDefaultTitle(title: string): string | null {
  const text = title.trim().replace(/\s+/g, ' ');
  return emptyTitle.test(text) ? null : text;
}

/**
 * Normalizes newlines and Unicode (NFC), and removes invisible characters (controls, zero-width spaces, direction
 * overrides, tags), which hide words from readers but not from models. Joiners stay: scripts and emoji need them.
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

export function cleanMarkdown(markdown: string): string {
  return cleanText(markdown)
    .replace(/[^\S\n]+$/gm, '')
    .replace(/\n{3,}/g, '\n\n')
    .replace(/^\n+|\n+$/g, '');
}

/** A converted document. Page n starts at `pageMap[n - 1]` in `body`; `pageMap` is null if the format has no pages. */
export type CleanParsedDocument = { body: string; pageMap: number[] | null; title: string | null };

/** Pages are cleaned before they are joined, because cleaning changes the text length and so the page offsets. */
export function cleanParsedDocument({ body, title }: ParsedDocument): CleanParsedDocument {
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

export function textTooLongError({ bodyLength }: Pick<ConversionProcessLimits, 'bodyLength'>): AppError {
  return appError('too_large', { detail: `The text of the file is longer than ${bodyLength} characters.` });
}
