import { z } from 'zod';
import type { RecognizedLine } from '#src/ports/documents.ts';
import { cleanText } from '../clean-document.ts';

/** A line of a page as drawn. Places and sizes are in points; `gap` is the widest empty space inside the line. */
export type PdfLine = {
  text: string;
  left: number;
  right: number;
  baseline: number;
  size: number;
  isBold: boolean;
  gap: number;
  /** The last word was cut by a hyphen, which is not in `text`. */
  isHyphenated: boolean;
};

/** `isPicture`: it shows something, but next to no text can be taken from it. */
export type PdfPage = { lines: PdfLine[]; isPicture: boolean };

const rawLine = z.tuple([z.string(), z.number(), z.number(), z.number(), z.number(), z.boolean(), z.number()]);

/** What pdf_child.py says first about an open document. */
export const pdfDocumentMessage = z.object({ pageCount: z.int().positive(), title: z.string() });

/** What pdf_child.py says about each page. */
export const pdfPageMessage = z
  .object({ lines: z.array(rawLine), isPicture: z.boolean() })
  .transform(({ lines, isPicture }): PdfPage => ({ lines: readLines(lines), isPicture }));

/** A page whose lines were read on its picture. */
export function recognizedPage(lines: readonly RecognizedLine[]): PdfPage {
  return { lines: readLines(lines), isPicture: true };
}

function readLines(lines: readonly z.infer<typeof rawLine>[]): PdfLine[] {
  return arrange(lines.map(readLine));
}

function readLine([raw, left, right, baseline, size, isBold, gap]: z.infer<typeof rawLine>): PdfLine {
  // PDFium gives a hyphen that it takes for a cut word as a character that is none.
  // biome-ignore lint/suspicious/noControlCharactersInRegex: one of the marks is a control character
  const isMarked = /[\u0002\u00ad\ufffe]\s*$/.test(raw);
  const text = cleanText(plainLetters(raw)).replace(/\s+/g, ' ').trim();
  const isCut = isMarked || /\p{L}[-\u2010]$/u.test(text);
  const kept = isMarked ? text : text.replace(/(?<=\p{L})[-\u2010]$/u, '');
  return { text: kept, left, right, baseline, size, isBold, gap, isHyphenated: isCut };
}

/** Letters that are drawn as one sign; TeX fonts without a table of meanings show ff as a return arrow. */
function plainLetters(text: string): string {
  return text.replace(/[\ufb00-\ufb06]/g, (ligature) => ligature.normalize('NFKC')).replace(/\u21b5(?=\p{L})/gu, 'ff');
}

/** Upright lines in their order; what runs up the margin (stamps, labels of axes) goes first and cuts no sentence. */
function arrange(lines: PdfLine[]): PdfLine[] {
  const filled = lines.filter((line) => line.text);
  const upright = filled.filter((line) => line.size > 0);
  return [...filled.filter((line) => line.size <= 0), ...joinPieces(upright)];
}

/** Raised numbers and changes of the font make PDFium begin a line within the line. */
function joinPieces(lines: PdfLine[]): PdfLine[] {
  const joined: PdfLine[] = [];
  for (const line of lines) {
    const previous = joined.at(-1);
    if (!previous || !isSameLine(previous, line)) joined.push(line);
    else joined[joined.length - 1] = joinTwo(previous, line);
  }
  return joined;
}

function isSameLine(previous: PdfLine, line: PdfLine): boolean {
  const size = Math.max(previous.size, line.size);
  const isBeside = line.left > previous.right - size / 2;
  return isBeside && !previous.isHyphenated && Math.abs(previous.baseline - line.baseline) < size / 2;
}

function joinTwo(previous: PdfLine, line: PdfLine): PdfLine {
  const main = line.text.length > previous.text.length ? line : previous;
  const between = line.left - previous.right;
  const isApart = between > main.size / 8 && !/^[.,;:)\]]/.test(line.text);
  return {
    text: previous.text + (isApart ? ' ' : '') + line.text,
    left: previous.left,
    right: line.right,
    baseline: main.baseline,
    size: main.size,
    isBold: previous.isBold && line.isBold,
    gap: Math.max(previous.gap, line.gap, between),
    isHyphenated: line.isHyphenated,
  };
}
