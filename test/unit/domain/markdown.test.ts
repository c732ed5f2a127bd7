import { expect } from 'chai';
import fc from 'fast-check';
import { parseMarkdownBlocks } from '#src/domain/documents/markdown.ts';

describe('markdown blocks', () => {
  it('cover any text without gaps', () => {
    const line = fc.oneof(fc.constantFrom('# a', '```', '- x', '| a |', '', '===', '---', '   ', 'text'), fc.string());
    fc.assert(
      fc.property(fc.array(line), fc.constantFrom('\n', '\r\n', '\r'), (lines, lineBreak) => {
        const body = lines.join(lineBreak);
        let last = 0;
        for (const { start, end } of parseMarkdownBlocks(body)) {
          expect(start).to.equal(last);
          expect(end).to.be.greaterThan(start);
          last = end;
        }
        expect(last).to.equal(body.length);
      }),
    );
  });

  it('are code, lists, tables, captions and text, and a code block ends only with its fence', () => {
    for (const [body, kinds] of [
      ['~~~\n# not a heading\n| a |\n```\n- b\n~~~\ntext', 'code text'],
      ['```\ncode\n\n# still code', 'code'],
      ['```js\na\n``` b\n```\nend', 'code text'],
      ['````\n```\n`````\nend', 'code text'],
      ['- item\n---', 'list'],
      ['a\nb\n===', 'text'],
      ['text\n| a |\n| b |\n\n| c |', 'text table table'],
      ['text\nFigure 1: no caption', 'text'],
      ['Figure 1: a caption\nthat goes on', 'caption'],
      ['- a\nlazy\n\nafter', 'list text'],
      ['\n\n# a', 'heading'],
      ['\n', 'text'],
      [
        'Intro:\n- one\n  more\n\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\nFigure 2: A chart\n\nOutro',
        'text list table caption text',
      ],
    ] as const) {
      const found = parseMarkdownBlocks(body).map(({ kind }) => kind);
      expect(found.join(' ')).to.equal(kinds);
    }
  });

  it('list the headings above each block without markup', () => {
    const body = 'start\n# One *big* [link](x)\n### Deep ##\ntext\n\nTwo\n===\n\nThree\n---\ntext\n';
    const paths = parseMarkdownBlocks(body).map(({ headingPath }) => headingPath.join(' / '));
    const [one, deep] = ['One big link', 'One big link / Deep'];
    expect(paths).to.deep.equal(['', one, deep, deep, 'Two', 'Two / Three', 'Two / Three']);
    expect(parseMarkdownBlocks(`#   ${'long '.repeat(100)}`)[0]?.headingPath).to.deep.equal([
      'long '.repeat(40).trim(),
    ]);
  });

  it('are parsed in linear time, even if each line could be a setext underline', () => {
    const half = 4_000_000;
    const blocks = parseMarkdownBlocks(`${'a'.repeat(half)}\nb\n${'=\n'.repeat(half / 2)}`);
    expect(blocks).deep.equal([{ kind: 'text', start: 0, end: 2 * half + 3, headingPath: [] }]);
  });
});
