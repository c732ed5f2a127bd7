import { expect } from 'chai';
import fc from 'fast-check';
import { parseMarkdownBlocks } from '#src/domain/documents/markdown.ts';
import { splitSentences } from '#src/domain/text/words.ts';

const kinds = (body: string) => parseMarkdownBlocks(body).map((block) => block.kind);

describe('markdown blocks', () => {
  it('cover any text without gaps', () => {
    const line = fc.oneof(fc.constantFrom('# a', '```', '- x', '| a |', '', '===', '---', '   ', 'text'), fc.string());
    fc.assert(
      fc.property(fc.array(line), fc.constantFrom('\n', '\r\n', '\r'), (lines, lineBreak) => {
        const body = lines.join(lineBreak);
        let end = 0;
        for (const block of parseMarkdownBlocks(body)) {
          expect(block.start).to.equal(end);
          expect(block.end).to.be.greaterThan(block.start);
          end = block.end;
        }
        expect(end).to.equal(body.length);
      }),
    );
  });

  it('treat headings, tables and lists inside a code fence as code', () => {
    expect(kinds('~~~\n# not a heading\n| a |\n```\n- b\n~~~\ntext')).to.deep.equal(['code', 'text']);
  });

  it('extend an unclosed fence to the end', () => {
    expect(kinds('```\ncode\n\n# still code')).to.deep.equal(['code']);
  });

  it('distinguish lists, tables and captions from text', () => {
    const body = 'Intro:\n- one\n  more\n\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\nFigure 2: A chart\n\nOutro';
    expect(kinds(body)).to.deep.equal(['text', 'list', 'table', 'caption', 'text']);
  });

  it('list the headings above each block without markup', () => {
    const body = 'start\n# One *big* [link](x)\n### Deep ##\ntext\n\nTwo\n===\n\nThree\n---\ntext\n';
    expect(parseMarkdownBlocks(body).map((block) => block.headingPath.join(' / '))).to.deep.equal([
      '',
      'One big link',
      'One big link / Deep',
      'One big link / Deep',
      'Two',
      'Two / Three',
      'Two / Three',
    ]);
  });

  it('are parsed in linear time, even if each line could be a setext underline', () => {
    const half = 4_000_000;
    const blocks = parseMarkdownBlocks(`${'a'.repeat(half)}\nb\n${'=\n'.repeat(half / 2)}`);
    expect(blocks).deep.equal([{ kind: 'text', start: 0, end: 2 * half + 3, headingPath: [] }]);
  });
});

describe('sentences', () => {
  const split = (text: string) => splitSentences(text).map(({ start, end }) => text.slice(start, end).trim());

  it('end at full stops of all scripts, also before closing quotes', () => {
    expect(split('One. Two! (Three?) “Four.” 五。六！ Seven')).to.deep.equal([
      'One.',
      'Two!',
      '(Three?)',
      '“Four.”',
      '五。',
      '六！',
      'Seven',
    ]);
  });

  it('do not end at abbreviations, initials, decimals or before lower case', () => {
    const text = 'Mr. A. Smith (b. 1950) owns approx. 3.5 acres, e.g. a field vs. the U.S. park.';
    expect(split(text)).to.deep.equal([text]);
  });
});
