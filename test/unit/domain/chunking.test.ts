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
import type { TokenCounter } from '#src/domain/text/tokens.ts';
import { propertyRuns } from '#test/support/seeded.ts';

const tokens = createTokenCounter();
/** Each character counts as a token. */
const characters: TokenCounter = { count: (text) => text.length, measure: () => (start, end) => end - start };
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

  it('packs whole sentences, headings with their text, and whole tables, and splits only what is too long', () => {
    const sentences = 'Aa. Bb. Cc. Dd. ';
    for (const [body, targetTokens, overlapTokens, chunks] of [
      [sentences, 8, 0, ['Aa. Bb. ', 'Cc. Dd. ']],
      [sentences, 8, 4, ['Aa. Bb. ', 'Bb. Cc. ', 'Dd. ']],
      [sentences, 12, 8, ['Aa. Bb. Cc. ', 'Bb. Cc. Dd. ']],
      ['- a\n- b\n- c\n', 8, 4, ['- a\n- b\n', '- b\n- c\n']],
      ['- Aa. Bb. \n- Cc.\n', 10, 4, ['- Aa. ', 'Bb. \n', '- Cc.\n']],
      ['- a\n\n\n- b\n', 6, 0, ['- a\n\n\n', '- b\n']],
      // A heading begins a new chunk once the chunk is half full, and else stays with the text below it.
      ['Aa. Bb. \n\n# T\n\nBb. Cc. ', 16, 4, ['Aa. Bb. \n\n', '# T\n\nBb. Cc. ']],
      ['Aa. Bb. \n\n# T\n\nBb. Cc. ', 24, 4, ['Aa. Bb. \n\n# T\n\nBb. Cc. ']],
      ['Aa. Bb. Cc. \n\n# T\n\n## U\n\nDd. ', 20, 0, ['Aa. Bb. Cc. \n\n', '# T\n\n## U\n\nDd. ']],
      ['# T\n\n## U\n\nDd. Ee. ', 12, 4, ['# T\n\n## U\n\n', 'Dd. Ee. ']],
      ['Aa. \n# T\nBb. \n# U\nCc. ', 13, 4, ['Aa. \n', '# T\nBb. \n', '# U\nCc. ']],
      ['| a |\n| b |\nAa. ', 12, 6, ['| a |\n| b |\n', 'Aa. ']],
      ['| a |\n| b |\n| c |\n', 12, 6, ['| a |\n| b |\n', '| c |\n']],
      ['```\na\nb\n```\n', 8, 4, ['```\na\nb\n', '```\n']],
      // Splits at white space in the second half of a part, or else between characters.
      ['aaaa bbbb cccc', 6, 0, ['aaaa ', 'bbbb ', 'cccc']],
      ['a bbbbbb', 4, 0, ['a bb', 'bbbb']],
      ['aa\nb ccccc', 6, 0, ['aa\nb ', 'ccccc']],
      ['a😀😀', 2, 0, ['a', '😀', '😀']],
      ['😀😀', 1, 0, ['😀', '😀']],
    ] as const) {
      const found = chunkByTokens(body, { method: 'token', targetTokens, overlapTokens }, { tokens: characters });
      expect(found.map(({ content }) => content)).to.deep.equal(chunks);
    }
    const kinds = ['Aa. \n| a |\n| b |\n', '# T\n\nAa. ', '# T', '```\na\n```'].map(
      (body) => chunk(body, 50, 0)[0]?.chunkKind,
    );
    expect(kinds).to.deep.equal(['table', 'text', 'heading', 'code']);
    const hi = { index: 0, content: 'Hi', contentOffset: 0, tokenCount: 1, chunkKind: 'text', headingPath: [] };
    expect([chunk('Hi', 50, 0), chunk(' \n\t\r\n', 50, 0)]).to.deep.equal([[hi], []]);
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

  it('yields chunks that contain all of the text once, within the target size, whatever the embeddings are', () => {
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

  it('splits where sentences differ most, long segments again, and joins short ones to the more similar side', () => {
    const sentences = repeat(14, (n) => `${String.fromCharCode(65 + n)}a. `);
    const split = (distances: string, target: number) => {
      const body = sentences.slice(0, distances.length + 1).join('');
      const pieces = chunkSemantically(body, options(target), distances.split('').map(Number), { tokens: characters });
      return pieces.map(({ content }) => content.replaceAll('a. ', '')).join(' ');
    };
    for (const [distances, target, pieces] of [
      ['111191111', 40, 'ABCDE FGHIJ'],
      ['111191111', 12, 'A B CDE F G HIJ'],
      // A fits into no neighbour, or into one.
      ['911118111', 20, 'A BCDEF GHIJ'],
      ['911181111', 20, 'ABCDE FGHIJ'],
      // D and G are nearer to the segment after and before them.
      ['119811211', 20, 'ABC DEFG HIJ'],
      ['1151189112111', 20, 'ABC DEFG HIJ KLMN'],
      ['1111911', 32, 'ABCDE FGH'],
    ] as const) {
      expect(split(distances, target), `${distances} ${target}`).to.equal(pieces);
    }
    const tooMany = () => chunkSemantically('Aa. Bb. ', options(40), Array<number>(9).fill(1), { tokens: characters });
    expect(tooMany).to.throw('2 sentences needs 1 distances; got 9');
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
