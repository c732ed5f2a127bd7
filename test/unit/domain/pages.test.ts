import { expect } from 'chai';
import { alignPages, estimatedPageCount, pageNumberAt } from '#src/domain/documents/pages.ts';
import { seeded } from '#test/support/seeded.ts';

const sentence = (of: string) => `The ${of} chapter tells how the ${of} came about and what became of the ${of}.`;
const subjects = ['harbour', 'orchard', 'railway', 'library', 'glacier'];

describe('the pages of a converted document', () => {
  it('are found although the rendered pages have other line breaks, running headers and page numbers', () => {
    const body = subjects.map((of) => `## ${of}\n\n${sentence(of)}`).join('\n\n');
    const pages = subjects.map((of) => `${of.toUpperCase()}\r\n${sentence(of).replaceAll(' ', '\r\n')}`);
    expect(alignPages(body, pages)).deep.equal(subjects.map((of) => (of === 'harbour' ? 0 : body.indexOf(`${of}\n`))));
    const plain = subjects.map(sentence).join('\n\n');
    const framed = subjects.map((of, index) => `Annual report of the society\n${sentence(of)}\n${index + 1}`);
    expect(alignPages(plain, framed)).deep.equal(subjects.map((of) => plain.indexOf(sentence(of))));
  });

  it('are found even if they start in the middle of a paragraph, have no text, or only repeat other pages', () => {
    const paragraph = subjects.map(sentence).join(' ');
    const cut = paragraph.indexOf('came about', 100);
    expect(alignPages(paragraph, [paragraph.slice(0, cut), paragraph.slice(cut)])).deep.equal([0, cut]);
    const [harbour, orchard] = [sentence('harbour'), sentence('orchard')];
    const second = harbour.length + 1;
    expect(alignPages(`${harbour}\n${orchard}`, [harbour, '', orchard])).deep.equal([0, second, second]);
    const again = 'the same the same the same the same';
    const body = [harbour, again, again, orchard].join('\n');
    const [, repeated, last] = alignPages(body, [`${harbour} ${again}`, again, orchard]);
    expect(last).equal(body.indexOf(orchard));
    expect(repeated).within(harbour.length, body.indexOf(orchard));
  });

  it('are found in scripts without spaces, and divide the text into equal parts if the pages have no words', () => {
    const body = '港口的历史很长许多船只来过这里。果园在山的另一边苹果很有名。';
    const pages = ['港口的历史很\n长许多船只来过\n这里。', '果园在山的\n另一边苹果很有名。'];
    expect(alignPages(body, pages)).deep.equal([0, body.indexOf('果园')]);
    expect(alignPages('123456789', ['', '', ''])).deep.equal([0, 3, 6]);
    // The third page has 2 of the 17 words of the second and third.
    const plain = subjects.map(sentence).join('\n');
    const [second, last] = [plain.indexOf(sentence('orchard')), plain.indexOf(sentence('railway'))];
    const third = second + Math.round((15 / 17) * (last - second));
    const printed = [sentence('harbour'), sentence('orchard'), 'Figure 1', sentence('railway')];
    expect(alignPages(plain, printed)).deep.equal([0, second, third, last]);
    expect(alignPages('', [''])).deep.equal([0]);
    expect(alignPages('One page.', ['Another text altogether.'])).deep.equal([0]);
    expect(alignPages('Text.', [])).deep.equal([]);
  });

  it('have ascending offsets from 0 within the text', () => {
    const random = seeded(7);
    const text = (words: number) =>
      Array.from({ length: words }, () => random.pick(['a', 'b', 'cc', 'd', '', '\n'])).join(' ');
    for (let round = 0; round < 300; round += 1) {
      const body = text(random.between(0, 60));
      const cut = random.between(0, body.length);
      const pages = [body.slice(cut), text(random.between(0, 20)), body.slice(0, cut), text(random.between(0, 9))];
      const starts = alignPages(body, pages);
      expect(starts).length(pages.length);
      expect(starts[0]).equal(0);
      for (const [index, start] of starts.entries()) expect(start).within(starts[index - 1] ?? 0, body.length);
    }
  });

  it('start at the exact first word of the page', () => {
    const random = seeded(11);
    for (let round = 0; round < 50; round += 1) {
      const words = Array.from({ length: 400 }, () => `w${random.between(0, 5_000)}`);
      const body = words.join(' ');
      const cuts = [0, 130, 260];
      const pages = cuts.map((cut, index) => words.slice(cut, cuts[index + 1]).join('\n'));
      expect(alignPages(body, pages)).deep.equal(
        cuts.map((cut) => words.slice(0, cut).join(' ').length + (cut > 0 ? 1 : 0)),
      );
    }
  });

  it('determine the page number of a text offset, which is estimated if the pages are unknown', () => {
    expect([0, 9, 10, 25, 99].map((offset) => pageNumberAt([0, 10, 20], offset))).to.deep.equal([1, 1, 2, 3, 3]);
    expect([0, 2999, 3000].map((offset) => pageNumberAt(null, offset))).to.deep.equal([1, 1, 2]);
    expect(pageNumberAt([], 3_000)).equal(2);
    expect([0, 1, 3_000, 3_001].map(estimatedPageCount)).to.deep.equal([0, 1, 1, 2]);
  });
});
