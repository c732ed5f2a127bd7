import { expect } from 'chai';
import { alignPages } from '#src/domain/documents/pages.ts';
import { seeded } from '#test/support/seeded.ts';

const sentence = (of: string) => `The ${of} chapter tells how the ${of} came about and what became of the ${of}.`;
const subjects = ['harbour', 'orchard', 'railway', 'library', 'glacier'];

describe('alignPages', () => {
  it('finds pages although the rendered text has other line breaks', () => {
    const body = subjects.map((of) => `## ${of}\n\n${sentence(of)}`).join('\n\n');
    const pages = subjects.map((of) => `${of.toUpperCase()}\r\n${sentence(of).replaceAll(' ', '\r\n')}`);
    expect(alignPages(body, pages)).deep.equal(subjects.map((of) => (of === 'harbour' ? 0 : body.indexOf(`${of}\n`))));
  });

  it('ignores running headers and page numbers', () => {
    const body = subjects.map(sentence).join('\n\n');
    const pages = subjects.map((of, index) => `Annual report of the society\n${sentence(of)}\n${index + 1}`);
    expect(alignPages(body, pages)).deep.equal(subjects.map((of) => body.indexOf(sentence(of))));
  });

  it('can start a page in the middle of a paragraph', () => {
    const body = subjects.map(sentence).join(' ');
    const cut = body.indexOf('came about', 100);
    expect(alignPages(body, [body.slice(0, cut), body.slice(cut)])).deep.equal([0, cut]);
  });

  it('gives a page without text an empty part of the body', () => {
    const body = subjects.slice(0, 2).map(sentence).join('\n');
    const second = body.indexOf(sentence('orchard'));
    expect(alignPages(body, [sentence('harbour'), '', sentence('orchard')])).deep.equal([0, second, second]);
  });

  it('interpolates the start of a page that only repeats other pages', () => {
    const again = 'the same the same the same the same';
    const body = [sentence('harbour'), again, again, sentence('orchard')].join('\n');
    const starts = alignPages(body, [`${sentence('harbour')} ${again}`, again, sentence('orchard')]);
    expect(starts[2]).equal(body.indexOf(sentence('orchard')));
    expect(starts[1]).within(sentence('harbour').length, body.indexOf(sentence('orchard')));
  });

  it('finds pages in scripts without spaces', () => {
    const body = '港口的历史很长许多船只来过这里。果园在山的另一边苹果很有名。';
    const second = body.indexOf('果园');
    expect(alignPages(body, ['港口的历史很\n长许多船只来过\n这里。', '果园在山的\n另一边苹果很有名。'])).deep.equal([
      0,
      second,
    ]);
  });

  it('divides the body equally between pages without words', () => {
    expect(alignPages('123456789', ['', '', ''])).deep.equal([0, 3, 6]);
  });

  it('returns one page if nothing matches', () => {
    expect(alignPages('', [''])).deep.equal([0]);
    expect(alignPages('One page.', ['Another text altogether.'])).deep.equal([0]);
    expect(alignPages('Text.', [])).deep.equal([]);
  });

  it('returns ascending offsets from 0 within the body for any pages', () => {
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

  it('finds the exact word at which each page starts', () => {
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
});
