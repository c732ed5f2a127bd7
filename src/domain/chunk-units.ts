import { type Block, type BlockKind, lines, parseBlocks } from './markdown-blocks.ts';
import { type Span, sentences } from './sentences.ts';
import { furthestEnd, isCharacterBoundary, type TokenRuler } from './tokens.ts';

/**
 * What chunks are packed from: a sentence, a heading, a whole table or code block, or a part of one that is too long
 * by itself. Units cover the body without gaps. Only whole sentences may be repeated as overlap.
 */
export type Unit = Span & { block: Block; isSentence: boolean };

/** Cuts a body into units of at most `maxTokens` each (a single character may exceed a very small maximum). */
export function chunkUnits(body: string, ruler: TokenRuler, maxTokens: number): Unit[] {
  return parseBlocks(body).flatMap((block) => blockUnits(body, block, ruler, maxTokens));
}

function blockUnits(body: string, block: Block, ruler: TokenRuler, maxTokens: number): Unit[] {
  const spans = cuts[block.kind](body, block, ruler, maxTokens);
  const isSentence = block.kind === 'text' || block.kind === 'list';
  return spans.flatMap((span) => {
    if (ruler(span.start, span.end) <= maxTokens) return [{ ...span, block, isSentence }];
    return hardCuts(body, span, ruler, maxTokens).map((part) => ({ ...part, block, isSentence: false }));
  });
}

type Cut = (body: string, block: Block, ruler: TokenRuler, maxTokens: number) => Span[];

const whole: Cut = (_body, block) => [{ start: block.start, end: block.end }];

const byLineWhenTooLong: Cut = (body, block, ruler, maxTokens) =>
  ruler(block.start, block.end) <= maxTokens ? whole(body, block, ruler, maxTokens) : textLines(body, block);

const cuts: Record<BlockKind, Cut> = {
  text: (body, block) => sentences(body, block.start, block.end),
  list: (body, block) => textLines(body, block).flatMap((line) => sentences(body, line.start, line.end)),
  heading: whole,
  caption: whole,
  table: byLineWhenTooLong,
  code: byLineWhenTooLong,
};

/** The lines of a block, each with the blank lines that follow it: no unit begins with white space. */
function textLines(body: string, block: Block): Span[] {
  const found: Span[] = [];
  for (const line of lines(body, block.start, block.end)) {
    const previous = found.at(-1);
    if (previous && body.slice(line.start, line.end).trim() === '') previous.end = line.end;
    else found.push({ ...line });
  }
  return found;
}

/** Cuts a span that is too long by itself, at a line break or else at white space in the later half of each part. */
function hardCuts(body: string, span: Span, ruler: TokenRuler, maxTokens: number): Span[] {
  const parts: Span[] = [];
  for (let start = span.start; start < span.end; ) {
    const limit = furthestEnd(ruler, start, span.end, maxTokens);
    const end = limit === span.end ? limit : goodCut(body, start, limit, span.end);
    parts.push({ start, end });
    start = end;
  }
  return parts;
}

function goodCut(body: string, start: number, limit: number, spanEnd: number): number {
  const halfway = start + ((limit - start) >>> 1);
  const cut = lastCut(body, halfway, limit, /[\r\n]/) ?? lastCut(body, halfway, limit, /\s/);
  if (cut !== null) return cut;
  let end = limit;
  while (end > start && !isCharacterBoundary(body, end)) end--;
  if (end > start) return end;
  end = start + 1;
  while (end < spanEnd && !isCharacterBoundary(body, end)) end++;
  return end;
}

function lastCut(body: string, from: number, to: number, space: RegExp): number | null {
  for (let end = to; end > from; end--) {
    // Never between two: the part after it would begin with white space, perhaps on the page before its text.
    if (space.test(body.charAt(end - 1)) && !/\s/.test(body.charAt(end)) && isCharacterBoundary(body, end)) return end;
  }
  return null;
}
