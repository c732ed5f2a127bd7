import { z } from 'zod';
import { cleanText } from '../clean-text.ts';

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

export type PdfPage = { lines: PdfLine[]; images: number };

const rawLine = z.tuple([z.string(), z.number(), z.number(), z.number(), z.number(), z.boolean(), z.number()]);

/** What pdf_child.py says first about an open document. */
export const pdfDocumentMessage = z.object({ pageCount: z.int().positive(), title: z.string() });

/** What pdf_child.py says about each page. */
export const pdfPageMessage = z
  .object({ lines: z.array(rawLine), images: z.number() })
  .transform(({ lines, images }): PdfPage => ({ lines: lines.map(readLine).filter((line) => line.text), images }));

function readLine([raw, left, right, baseline, size, isBold, gap]: z.infer<typeof rawLine>): PdfLine {
  // PDFium gives a hyphen that it takes for a cut word as a character that is none.
  // biome-ignore lint/suspicious/noControlCharactersInRegex: PDFium's mark is a control character
  const isMarked = /[\u0002\u00ad\ufffe]\s*$/.test(raw);
  const clean = cleanText(raw).replace(/[\ufb00-\ufb06]/g, (ligature) => ligature.normalize('NFKC'));
  const text = clean.replace(/\s+/g, ' ').trim();
  const isHyphenated = isMarked || /\p{L}[-\u2010]$/u.test(text);
  return {
    text: isMarked ? text : text.replace(/(?<=\p{L})[-\u2010]$/u, ''),
    left,
    right,
    baseline,
    size,
    isBold,
    gap,
    isHyphenated,
  };
}
