import type { OcrLine } from '#src/ports/documents.ts';

// Differs from a page label such as "Page 3", of which only the first one in a document is kept.
const beginningOfNote = (pageIndex: number) => `(Page number ${pageIndex + 1} could not be read:`;

/** Puts a line above the text of a page that says why most of the page could not be read. */
export function withUnreadableNote(pageIndex: number, languages: string, lines: OcrLine[]): OcrLine[] {
  const [, left, right, baseline, size] = lines[0] ?? ['', 0, 0, 0, 10];
  const reason = `OCR (${languages}) found letters on it that form no words.`;
  const causes = 'It may be handwriting, in another language, or a poor scan.)';
  const note = `${beginningOfNote(pageIndex)} ${reason} ${causes}`;
  return [[note, left, right, baseline + 3 * size, size, false, 0], ...lines];
}

export function isUnreadableNote(pageIndex: number, [text]: OcrLine): boolean {
  return text.startsWith(beginningOfNote(pageIndex));
}
