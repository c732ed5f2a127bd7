import { z } from 'zod';
import type { OcrLine } from '#src/ports/documents.ts';
import { cleanText } from '../parsed-document.ts';
import { isGlyphCodes } from './glyph-codes.ts';
import { columnWidth } from './pdf-listings.ts';

/** A line on a PDF page. Coordinates and sizes are in points; `gap` is the widest empty space inside the line. */
export type PdfLine = {
  text: string;
  left: number;
  right: number;
  baseline: number;
  size: number;
  isBold: boolean;
  gap: number;
  /** True if the line ends in a hyphenated word; `text` does not contain the hyphen. */
  isHyphenated: boolean;
  /** The line with all its spaces and signs if its font is monospaced. */
  code?: string;
};

/**
 * `isPicture`: OCR must read the page, because it shows something and has almost no text, as in a scan, or because its
 * text was no text. `lines` are the sound text of the page itself, such as a stamp.
 */
export type PdfPage = { lines: PdfLine[]; isPicture: boolean };

/** PDFium replaces a hyphen at a line end by one of these marks. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: one of the marks is a control character
const endMark = /[\u0002\u00ad\ufffe]\s*$/;

const [text, position, flag] = [z.string(), z.number(), z.boolean()];
const rawLine = z.tuple([text, position, position, position, position, flag, position, flag]);

export const pdfDocumentMessageSchema = z.object({ pageCount: z.int().positive(), title: z.string() });

export const pdfPageMessageSchema = z
  .object({ lines: z.array(rawLine), isPicture: z.boolean(), unmapped: z.number() })
  .transform(({ lines, isPicture, unmapped }): PdfPage => {
    const text = lines.map(([raw]) => raw.replace(endMark, '')).join('\n');
    if (isGlyphCodes(text, unmapped)) return { lines: [], isPicture: true };
    return { lines: readLines(lines), isPicture };
  });

/** A page from the lines that OCR has read, after the text that the page itself has. */
export function pdfPageFromOcr(lines: readonly OcrLine[], own: PdfPage['lines'] = []): PdfPage {
  return { lines: [...own, ...readLines(lines)], isPicture: true };
}

type RawLine = z.infer<typeof rawLine> | OcrLine;

function readLines(lines: readonly RawLine[]): PdfLine[] {
  return arrange(lines.map(readLine));
}

function readLine([raw, left, right, baseline, size, isBold, gap, isMonospaced]: RawLine): PdfLine {
  const isMarked = endMark.test(raw);
  const text = cleanText(plainLetters(raw)).replace(/\s+/g, ' ').trim();
  const isCut = isMarked || /\p{L}[-\u2010]$/u.test(text);
  const kept = isMarked ? text : text.replace(/(?<=\p{L})[-\u2010]$/u, '');
  const line = { text: kept, left, right, baseline, size, isBold, gap, isHyphenated: isCut };
  return isMonospaced ? { ...line, code: cleanText(raw.replace(endMark, '-')).trim() } : line;
}

function plainLetters(text: string): string {
  return text.replace(/[\ufb00-\ufb06]/g, (ligature) => ligature.normalize('NFKC')).replace(/\u21b5(?=\p{L})/gu, 'ff');
}

/** Moves vertical text in the margin (stamps, axis labels) to the front, so that it does not interrupt a sentence. */
function arrange(lines: PdfLine[]): PdfLine[] {
  const filled = lines.filter((line) => line.text);
  const upright = filled.filter((line) => line.size > 0);
  return [...filled.filter((line) => line.size <= 0), ...joinPieces(upright)];
}

/** Joins pieces of one line, because PDFium starts a new line at superscripts and font changes. */
function joinPieces(lines: PdfLine[]): PdfLine[] {
  const joined: PdfLine[] = [];
  for (const line of lines) {
    const previous = joined.at(-1);
    if (!previous || !isSameLine(previous, line)) joined.push(line);
    else joined[joined.length - 1] = joinPair(previous, line);
  }
  return joined;
}

function isSameLine(previous: PdfLine, line: PdfLine): boolean {
  const size = Math.max(previous.size, line.size);
  const isBeside = line.left > previous.right - size / 2;
  return isBeside && !previous.isHyphenated && Math.abs(previous.baseline - line.baseline) < size / 2;
}

function joinPair(previous: PdfLine, line: PdfLine): PdfLine {
  const main = line.text.length > previous.text.length ? line : previous;
  const between = line.left - previous.right;
  const isApart = between > main.size / 8 && !/^[.,;:)\]]/.test(line.text);
  const columns = Math.max(0, Math.round(between / columnWidth([previous, line])));
  return {
    ...(previous.code && line.code && { code: previous.code + ' '.repeat(columns) + line.code }),
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
