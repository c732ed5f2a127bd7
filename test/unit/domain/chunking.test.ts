import { expect } from 'chai';
import fc from 'fast-check';
import { createTokenCounter } from '#src/adapters/text/token-counter.ts';
import {
  type Chunk,
  chunkByTokens,
  chunkSemantically,
  cosineDistance,
  windowsForSemanticChunking,
} from '#src/domain/documents/chunking.ts';
import { propertyRuns } from '#test/support/seeded.ts';

const tokens = createTokenCounter();
const repeat = (count: number, text: (index: number) => string) => Array.from({ length: count }, (_, n) => text(n));

describe('chunking by tokens', () => {
  function chunk(body: string, targetTokens: number, overlapTokens: number): Chunk[] {
    return chunkByTokens(body, { method: 'token', targetTokens, overlapTokens }, { tokens });
  }

  it('keeps chunks and overlaps within their limits, loses no text, and has exact counts and offsets', () => {
    const line = fc.oneof(
      fc.constantFrom('# Title', '## Part *two*', '', '  ', '```', '| a | b |', '|---|---|', '- item one', '    code'),
      fc.constantFrom('2. Second. Third!', 'Setext', '===', '---', '![x](y.png)', 'Figure 1: A caption', '~~~ts'),
      fc.constantFrom('x'.repeat(300), '😀'.repeat(60), '世界。你好！再见'),
      fc.constant('Dr. Who met J. Doe at 3.14 p.m. They left. Then (quietly.) it ended… Yes?'),
      fc.string({ unit: 'grapheme', maxLength: 40 }),
      fc.lorem({ maxCount: 4, mode: 'sentences' }),
    );
    const lineBreak = fc.constantFrom('\n', '\r\n', '\n\n', '\r');
    const body = fc.array(fc.tuple(line, lineBreak), { maxLength: 40 }).map((lines) => lines.flat().join(''));
    fc.assert(
      fc.property(body, fc.integer({ min: 8, max: 200 }), fc.nat(100), (text, targetTokens, overlap) => {
        const overlapTokens = overlap % targetTokens;
        let end = 0;
        for (const [index, piece] of chunk(text, targetTokens, overlapTokens).entries()) {
          const next = piece.contentOffset + piece.content.length;
          expect(piece.index).to.equal(index);
          expect(text.slice(piece.contentOffset, next)).to.equal(piece.content);
          expect(piece.tokenCount).to.equal(tokens.count(piece.content)).and.to.be.at.most(targetTokens);
          expect(piece.contentOffset).to.be.at.most(end);
          expect(tokens.count(text.slice(piece.contentOffset, end))).to.be.at.most(overlapTokens);
          expect(next).to.be.greaterThan(end);
          end = next;
        }
        expect(end).to.equal(text.trim() === '' ? 0 : text.length);
      }),
      { numRuns: propertyRuns(2000) },
    );
  });

  it('splits between sentences, and repeats whole sentences as overlap', () => {
    const text = repeat(12, (n) => `Sentence number ${n} has some words in it. `).join('');
    const [first, second] = chunk(text, 50, 15);
    const overlap = text.slice(second?.contentOffset, first?.content.length);
    expect(overlap).to.match(/^Sentence number \d+ has some words in it\. $/);
    const abbreviated = 'Dr. Smith paid 3.5 dollars, i.e. little. J. Doe paid more. ';
    expect(chunk(abbreviated, 17, 0).map(({ content }) => content)).to.deep.equal([
      'Dr. Smith paid 3.5 dollars, i.e. little. ',
      'J. Doe paid more. ',
    ]);
  });

  it('keeps a heading with the text below it, and lists the headings above a chunk', () => {
    const paragraph = 'Words fill this line until it is long enough to count. ';
    const pieces = chunk(`# Guide\n\n${paragraph.repeat(3)}\n\n## Setup\n\n${paragraph.repeat(5)}`, 60, 12);
    expect(pieces.map(({ headingPath }) => headingPath.join('/'))).to.deep.equal([
      'Guide',
      'Guide/Setup',
      'Guide/Setup',
    ]);
    expect(pieces[1]?.content).to.match(/^## Setup/);
  });

  it('keeps a table whole if it fits, and otherwise splits it between rows', () => {
    const rows = (count: number) => repeat(count, (n) => `| row ${n} | value ${n} |\n`).join('');
    const table = `| name | value |\n|---|---|\n${rows(6)}`;
    const around = 'A sentence before the table is here to take some room. '.repeat(3);
    const whole = chunk(`${around}\n\n${table}\n${around}`, 90, 0);
    expect(whole.some(({ content }) => content.includes(table))).to.equal(true);
    expect(whole.map(({ chunkKind }) => chunkKind)).to.include('table');
    for (const { content } of chunk(`${table}${rows(60)}`, 90, 20)) expect(content).to.match(/^\|[\s\S]*\|\n$/);
  });

  it('splits code between lines, a very long line at white space, and never a character', () => {
    const code = chunk(`\`\`\`ts\n${'const answer = compute(1, 2, 3);\n'.repeat(40)}\`\`\`\n`, 60, 20);
    expect(code.map(({ chunkKind }) => chunkKind)).to.deep.equal(code.map(() => 'code'));
    for (const { content } of code) expect(content).to.match(/\n$/);
    const words = chunk('alpha beta gamma '.repeat(3000), 100, 20);
    for (const { content } of words.slice(0, -1)) expect(content).to.match(/ $/);
    const smileys = chunk('😀'.repeat(500), 9, 0);
    expect(smileys.length).to.be.greaterThan(10);
    for (const { content } of smileys) expect(content.isWellFormed()).to.equal(true);
  });

  it('starts each chunk with text, and makes no chunk of white space alone', () => {
    const items = repeat(40, (n) => `${n + 1}. Item with some words in it.\n\n\n`).join('');
    for (const targetTokens of [10, 11, 12, 25]) {
      for (const { content } of chunk(items, targetTokens, 0)) expect(content).to.match(/^\S/);
    }
    expect(chunk(' \n\t\r\n', 50, 0)).to.deep.equal([]);
    const hi = { index: 0, content: 'Hi', contentOffset: 0, tokenCount: 1, chunkKind: 'text', headingPath: [] };
    expect(chunk('Hi', 50, 0)).to.deep.equal([hi]);
  });
});

describe('semantic chunking', () => {
  const options = (targetTokens: number) => ({ method: 'semantic' as const, targetTokens, overlapTokens: 0 });
  const windowsOf = (body: string, targetTokens: number) =>
    windowsForSemanticChunking(body, options(targetTokens), { tokens });
  const loans = repeat(10, (n) => `Loan rule ${n} is about money. `);
  const birds = repeat(10, (n) => `Bird fact ${n} is about wings. `);

  /** Chunks by embeddings of two dimensions, given as angles. */
  function chunk(body: string, targetTokens: number, radians: (index: number) => number) {
    const vectors = windowsOf(body, targetTokens).map((_, index) => {
      return Float32Array.of(Math.cos(radians(index)), Math.sin(radians(index)));
    });
    const distances = vectors.slice(1).map((vector, index) => cosineDistance(vectors[index] ?? vector, vector));
    return chunkSemantically(body, options(targetTokens), distances, { tokens });
  }

  it('splits where the topic changes', () => {
    const pieces = chunk([...loans, ...birds].join(''), 200, (index) => (index < loans.length ? 0 : 1.5));
    expect(pieces.map(({ content }) => content)).to.deep.equal([loans.join(''), birds.join('')]);
  });

  it('covers the body without overlap, within the target size, for any embeddings', () => {
    const sentence = fc.oneof(
      fc.lorem({ maxCount: 1, mode: 'sentences' }),
      fc.constantFrom('# Heading\n', '| a | b |\n', '- item\n', '世界。'),
    );
    const body = fc.array(sentence, { minLength: 4, maxLength: 40 }).map((list) => list.join(' '));
    const angles = fc.array(fc.double({ min: 0, max: 3, noNaN: true }), { minLength: 1 });
    fc.assert(
      fc.property(body, fc.integer({ min: 20, max: 120 }), angles, (text, target, radians) => {
        const pieces = chunk(text, target, (index) => radians[index % radians.length] ?? 0);
        expect(pieces.map(({ content }) => content).join('')).to.equal(text);
        for (const { tokenCount } of pieces) expect(tokenCount).to.be.at.most(target);
      }),
      { numRuns: propertyRuns(500) },
    );
  });

  it('joins a segment below a quarter of the target size to a neighbour if both fit', () => {
    const pieces = chunk([...loans.slice(0, 9), 'Tiny. ', ...birds].join(''), 100, (index) => index * index);
    expect(pieces.length).to.be.greaterThan(1);
    for (const [index, { content, tokenCount }] of pieces.entries()) {
      for (const neighbour of tokenCount < 25 ? [pieces[index - 1], pieces[index + 1]] : []) {
        if (neighbour) expect(neighbour.tokenCount + tokenCount, content).to.be.greaterThan(100);
      }
    }
  });

  it('chunks by tokens if there are too few sentences', () => {
    const body = loans.slice(0, 5).join('');
    expect(windowsOf(body, 20)).to.deep.equal([]);
    const byTokens = chunkByTokens(body, { method: 'token', targetTokens: 20, overlapTokens: 0 }, { tokens });
    expect(chunkSemantically(body, options(20), [], { tokens })).to.deep.equal(byTokens);
  });

  it('embeds each sentence together with its neighbours, within the input limit of an embedding service', () => {
    const windows = windowsOf(loans.join(''), 100);
    expect(windows[0]).to.equal(loans.slice(0, 2).join(''));
    expect(windows[4]).to.equal(loans.slice(3, 6).join(''));
    const long = windowsOf(`Long ${'word '.repeat(1_999)}ends. `.repeat(8), 8_000);
    expect(long).to.have.length(8);
    expect(Math.max(...long.map((window) => window.length))).to.equal(8_000);
  });
});
