/** A line of a PDF page; `code` is its text with all spaces if its font is monospaced. */
type Line = { code?: string; left: number; right: number; baseline: number; size: number };

const minLines = 2;
/** Maximum distance of two lines of a listing, in font sizes: it may have empty lines. */
const maxStep = 4;
/** The same in a document whose prose is monospaced, too, where an empty line separates code from prose. */
const maxStepBesideProse = 1.6;
const maxEmptyLines = 2;
const codeSign = /[{}[\]<>=|\\_^~`]|\w\(|;$/;
const signShare = 0.3;
/** Prose fills its lines and consists of words. */
const fullLine = 0.8;
const wordShare = 0.9;

/**
 * Finds the source code and printed output on a page: lines in a monospaced font, except prose. In a document whose prose
 * is in such a font, too, only lines with the signs of code count.
 */
export function findListings<Of extends Line>(lines: readonly Of[], isTypewrittenDocument: boolean): Set<Of> {
  const found = new Set<Of>();
  const step = isTypewrittenDocument ? maxStepBesideProse : maxStep;
  let group: Of[] = [];
  const endGroup = () => {
    if (isListing(group, isTypewrittenDocument)) for (const line of group) found.add(line);
    group = [];
  };
  for (const line of lines) {
    const previous = group.at(-1);
    if (previous && !isNext(previous, line, step)) endGroup();
    if (line.code && /[!-~]/.test(line.code)) group.push(line);
  }
  endGroup();
  return found;
}

/** True for a document that is prose in a monospaced font. */
export function isTypewritten(lines: readonly (Line & { text: string })[]): boolean {
  const monospaced = lines.filter(({ code }) => code);
  const lengthOf = (some: typeof lines) => some.reduce((sum, { text }) => sum + text.length, 0);
  if (2 * lengthOf(monospaced) <= lengthOf(lines)) return false;
  return monospaced.filter(({ code = '' }) => codeSign.test(code)).length < signShare * monospaced.length;
}

/** Lines in their columns in a block of code, with the empty lines between them. */
export function listingBlock(lines: readonly Line[]): string {
  const width = columnWidth(lines);
  const left = Math.min(...lines.map((line) => line.left));
  const steps = lines.slice(1).map((line, index) => (lines[index]?.baseline ?? 0) - line.baseline);
  const pitch = [...steps].sort((a, b) => a - b)[Math.floor(steps.length / 3)] ?? 0;
  const rows = lines.map((line, index) => {
    const emptyLines = index === 0 ? 0 : Math.round((steps[index - 1] ?? 0) / pitch) - 1;
    return (
      '\n'.repeat(Math.max(0, Math.min(maxEmptyLines, emptyLines))) +
      ' '.repeat(Math.round((line.left - left) / width)) +
      line.code
    );
  });
  const text = rows.join('\n');
  const fence = '`'.repeat(Math.max(3, ...(text.match(/`+/g) ?? []).map((ticks) => ticks.length + 1)));
  return `${fence}\n${text}\n${fence}`;
}

export function columnWidth(lines: readonly Line[]): number {
  const widths = lines.flatMap(({ code, left, right }) => (code && right > left ? [(right - left) / code.length] : []));
  return widths.sort((a, b) => a - b)[Math.floor(widths.length / 2)] ?? 6;
}

function isNext(previous: Line, line: Line, mostStep: number): boolean {
  const step = previous.baseline - line.baseline;
  return step > 0 && step <= mostStep * line.size && Math.abs(line.size - previous.size) < 1 && line.code !== undefined;
}

function isListing(lines: readonly Line[], isTypewrittenDocument: boolean): boolean {
  if (lines.length < minLines) return false;
  const codes = lines.map(({ code = '' }) => code);
  const text = codes.join('');
  // Fonts for East Asian text are monospaced.
  if (text.replace(/[^!-~]/g, '').length < text.replace(/\s/g, '').length / 2) return false;
  if (codes.filter((code) => codeSign.test(code)).length >= signShare * codes.length) return true;
  if (isTypewrittenDocument) return false;
  const longest = Math.max(...codes.map((code) => code.length));
  const full = codes.filter((code) => code.length >= fullLine * longest).length;
  return full <= codes.length / 2 || text.replace(/[^\p{L}\s.,'-]/gu, '').length < wordShare * text.length;
}
