import { expect } from 'chai';
import iconv from 'iconv-lite';
import { findHtmlTitle } from '#src/adapters/converter/page-title.ts';
import { dispositionFileName } from '#src/adapters/web/guarded-fetch.ts';

describe('the file name of a Content-Disposition header', () => {
  const cases: [string, string | null][] = [
    ['attachment; filename="a b.pdf"', 'a b.pdf'],
    ['attachment; filename=report.pdf; size=7', 'report.pdf'],
    ['inline; filename="a \\"quoted\\" name.txt"', 'a "quoted" name.txt'],
    [`attachment; filename="x.txt"; filename*=UTF-8''%C3%9Cber%20uns.txt`, 'Über uns.txt'],
    [`attachment; filename*=iso-8859-1'en'%A3%20rates.txt`, '£ rates.txt'],
    [`attachment; filename="x.txt"; filename*=UTF-8''%FF`, 'x.txt'],
    ['attachment; filename=""', null],
    ['inline', null],
    ['', null],
  ];
  for (const [header, name] of cases) {
    it(`is ${name} in ${header}`, () => {
      expect(dispositionFileName(header)).to.equal(name);
    });
  }
});

describe('the title of a page', () => {
  const titled = (title: string) => `<!doctype html><html><head><title>${title}</title></head><body>`;

  it('decodes entities and is a single line', () => {
    expect(findHtmlTitle(Buffer.from(titled('\n Q&amp;A &ndash;\n caf&eacute; &#x1F98A; ')), 'text/html')).to.equal(
      'Q&A – café 🦊',
    );
  });

  it('uses the charset of the server, otherwise of the page', () => {
    const words = 'Быстрая лиса';
    const bytes = iconv.encode(titled(words), 'windows-1251');
    expect(findHtmlTitle(bytes, 'text/html; charset=windows-1251')).to.equal(words);
    const named = iconv.encode(`<meta charset="windows-1251">${titled(words)}`, 'windows-1251');
    expect(findHtmlTitle(named, 'text/html')).to.equal(words);
  });

  it('is null without one, and of what is no page', () => {
    expect(findHtmlTitle(Buffer.from('<p>Fox</p>'), 'text/html')).to.equal(null);
    expect(findHtmlTitle(Buffer.from(titled(' \n')), 'text/html')).to.equal(null);
    expect(findHtmlTitle(Buffer.from('<html><title>cut of'), 'text/html')).to.equal(null);
    expect(findHtmlTitle(Buffer.from(titled('Fox')), 'text/plain')).to.equal(null);
  });
});
