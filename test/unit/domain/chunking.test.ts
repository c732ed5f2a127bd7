import { expect } from 'chai';
import fc from 'fast-check';
import { createTokenCounter } from '#src/adapters/text/token-counter.ts';
import { type Chunk, chunkByTokens } from '#src/domain/documents/chunking.ts';
import { propertyRuns } from '#test/support/property-runs.ts';

const tokens = createTokenCounter();

function chunk(body: string, targetTokens: number, overlapTokens: number): Chunk[] {
  return chunkByTokens(body, { method: 'token', targetTokens, overlapTokens }, { tokens });
}

const line = fc.oneof(
  fc.constantFrom(
    '# Title',
    '## Part *two*',
    '',
    '  ',
    '```',
    '| a | b |',
    '|---|---|',
    '- item one',
    '2. Second. Third!',
    '    code',
  ),
  fc.constantFrom(
    'Setext',
    '===',
    '---',
    '![x](y.png)',
    'Figure 1: A caption',
    '~~~ts',
    'x'.repeat(300),
    '😀'.repeat(60),
  ),
  fc.constantFrom('世界。你好！再见', 'Dr. Who met J. Doe at 3.14 p.m. They left. Then (quietly.) it ended… Yes?'),
  fc.string({ unit: 'grapheme', maxLength: 40 }),
  fc.lorem({ maxCount: 4, mode: 'sentences' }),
);
const body = fc
  .array(fc.tuple(line, fc.constantFrom('\n', '\r\n', '\n\n', '\r')), { maxLength: 40 })
  .map((lines) => lines.map(([text, lineBreak]) => text + lineBreak).join(''));
const settings = fc
  .tuple(fc.integer({ min: 8, max: 200 }), fc.nat(100))
  .map(([targetTokens, overlap]) => ({ targetTokens, overlapTokens: overlap % targetTokens }));

describe('chunking by tokens', () => {
  it('keeps every chunk within the target and its counts and offsets exact', () => {
    fc.assert(
      fc.property(body, settings, (text, { targetTokens, overlapTokens }) => {
        chunk(text, targetTokens, overlapTokens).forEach((piece, index) => {
          expect(piece.index).to.equal(index);
          expect(text.slice(piece.contentOffset, piece.contentOffset + piece.content.length)).to.equal(piece.content);
          expect(piece.tokenCount).to.equal(tokens.count(piece.content));
          expect(piece.tokenCount).to.be.at.most(targetTokens);
        });
      }),
      { numRuns: propertyRuns(1500) },
    );
  });

  it('restores the body without the overlaps, which stay within the limit', () => {
    fc.assert(
      fc.property(body, settings, (text, { targetTokens, overlapTokens }) => {
        let end = 0;
        for (const piece of chunk(text, targetTokens, overlapTokens)) {
          expect(piece.contentOffset).to.be.at.most(end);
          const overlap = text.slice(piece.contentOffset, end);
          expect(tokens.count(overlap)).to.be.at.most(overlapTokens);
          expect(piece.contentOffset + piece.content.length).to.be.greaterThan(end);
          end = piece.contentOffset + piece.content.length;
        }
        expect(end).to.equal(text.trim() === '' ? 0 : text.length);
      }),
      { numRuns: propertyRuns(1500) },
    );
  });

  it('never splits a character', () => {
    const pieces = chunk('😀'.repeat(500), 9, 0);
    expect(pieces.length).to.be.greaterThan(10);
    for (const { content } of pieces) expect(content).to.equal(content.toWellFormed());
  });

  it('repeats whole sentences as overlap', () => {
    const text = Array.from({ length: 12 }, (_, n) => `Sentence number ${n} has some words in it. `).join('');
    const [first, second] = chunk(text, 50, 15);
    const overlap = text.slice(second?.contentOffset, first?.content.length);
    expect(overlap).to.match(/^Sentence number \d+ has some words in it\. $/);
  });

  it('keeps abbreviations, initials and decimals inside their sentence', () => {
    const text = 'Dr. Smith paid 3.5 dollars, i.e. little. J. Doe paid more. ';
    expect(chunk(text, 17, 0).map((piece) => piece.content)).to.deep.equal([
      'Dr. Smith paid 3.5 dollars, i.e. little. ',
      'J. Doe paid more. ',
    ]);
  });

  it('keeps a heading with the text below it, and lists the headings above a chunk', () => {
    const paragraph = 'Words fill this line until it is long enough to count. ';
    const text = `# Guide\n\n${paragraph.repeat(3)}\n\n## Setup\n\n${paragraph.repeat(5)}`;
    const pieces = chunk(text, 60, 12);
    expect(pieces.map((piece) => piece.headingPath)).to.deep.equal([['Guide'], ['Guide', 'Setup'], ['Guide', 'Setup']]);
    expect(pieces[1]?.content).to.match(/^## Setup/);
  });

  it('keeps a table whole if it fits, and otherwise splits it between rows', () => {
    const rows = (count: number) => Array.from({ length: count }, (_, n) => `| row ${n} | value ${n} |\n`).join('');
    const table = `| name | value |\n|---|---|\n${rows(6)}`;
    const around = 'A sentence before the table is here to take some room. '.repeat(3);
    const whole = chunk(`${around}\n\n${table}\n${around}`, 90, 0);
    expect(whole.some((piece) => piece.content.includes(table))).to.equal(true);
    expect(whole.map((piece) => piece.chunkKind)).to.include('table');
    for (const piece of chunk(`| name | value |\n|---|---|\n${rows(60)}`, 90, 20)) {
      expect(piece.content).to.match(/^\|[\s\S]*\|\n$/);
    }
  });

  it('splits code between lines', () => {
    const code = `\`\`\`ts\n${'const answer = compute(1, 2, 3);\n'.repeat(40)}\`\`\`\n`;
    const pieces = chunk(code, 60, 20);
    expect(pieces.every((piece) => piece.chunkKind === 'code')).to.equal(true);
    for (const piece of pieces) expect(piece.content).to.match(/\n$/);
  });

  it('splits a very long line at white space', () => {
    const pieces = chunk('alpha beta gamma '.repeat(3000), 100, 20);
    for (const piece of pieces.slice(0, -1)) expect(piece.content).to.match(/ $/);
  });

  it('starts each chunk with text, even after blank lines inside a block', () => {
    const items = Array.from({ length: 40 }, (_, index) => `${index + 1}. Item with some words in it.\n\n\n`).join('');
    for (const targetTokens of [10, 11, 12, 25]) {
      for (const { content } of chunk(items, targetTokens, 0)) expect(content).to.match(/^\S/);
    }
  });

  it('has no chunks for a body of white space, and one for a short body', () => {
    expect(chunk(' \n\t\r\n', 50, 0)).to.deep.equal([]);
    expect(chunk('Hi', 50, 0)).to.deep.equal([
      { index: 0, content: 'Hi', contentOffset: 0, tokenCount: 1, chunkKind: 'text', headingPath: [] },
    ]);
  });
});
