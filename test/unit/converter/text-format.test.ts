import { expect } from 'chai';
import { detectTextFormat } from '#src/domain/documents/formats.ts';

describe('detectTextFormat', () => {
  const formatOf = (fileName: string, head: string) => detectTextFormat({ fileName, head });

  it('uses the file name when the content is undecided', () => {
    const names = ['a.txt', 'a.md', 'a.csv', 'a.json', 'a.py', 'a', 'a.unknown'];
    expect(names.map((name) => formatOf(name, 'x, y'))).to.eql([
      'text',
      'markdown',
      'csv',
      'json',
      'code',
      'text',
      'text',
    ]);
  });

  it('prefers clear content to the file name', () => {
    const page = '<!-- saved -->\n<!-- twice -->\n<!DOCTYPE html><html><p>x</p>';
    expect(formatOf('invoice.pdf', page)).to.equal('html');
    expect(formatOf('notes.html', 'only words')).to.equal('text');
    expect(formatOf('part.html', '<p>words</p>')).to.equal('html');
  });

  it('uses the declared media type only when the name is undecided', () => {
    const head = 'a,b';
    expect(detectTextFormat({ fileName: 'export', head, declaredMediaType: 'text/csv; charset=utf-8' })).to.equal(
      'csv',
    );
    expect(detectTextFormat({ fileName: 'export.txt', head, declaredMediaType: 'text/csv' })).to.equal('text');
  });

  it('recognizes mail, RTF and PostScript', () => {
    const mail = 'From: a@b.example\nMIME-Version: 1.0\n\nHello';
    expect(['From: me', mail, '{\\rtf1', '%!PS-Adobe'].map((head) => formatOf('a.txt', head))).to.eql([
      'text',
      'eml',
      'rtf',
      null,
    ]);
    expect(formatOf('a.txt', 'Note: a letter\n\nFrom: me\nMIME-Version: is a header')).to.equal('text');
    expect(formatOf('a.md', 'Title: Goods\nReceived: today\n')).to.equal('markdown');
  });

  it('accepts a mail file name only with mail headers', () => {
    expect(formatOf('a.eml', 'Subject:call me')).to.equal('eml');
    expect(formatOf('a.eml', 'From - Fri Feb  2 2024\nX-Mozilla-Status: 1\n')).to.equal('eml');
    expect(formatOf('a.eml', 'Only words.')).to.equal('text');
  });

  it('recognizes XML workbooks and feeds, and CSV under the file name of a workbook', () => {
    const prolog = '<?xml version="1.0"?>\n<!-- x -->\n';
    expect(formatOf('a.xml', '<?xml version="1.0"?>\n<?mso-application progid="Excel.Sheet"?>\n<Workbook>')).to.equal(
      'xls',
    );
    expect(formatOf('a.xls', 'Item\tPrice\nBolt\t2')).to.equal('csv');
    expect(formatOf('a.xml', `${prolog}<rss version="2.0">`)).to.equal('html');
    expect(formatOf('feed', '<feed xmlns="http://www.w3.org/2005/Atom">')).to.equal('html');
    expect(formatOf('a.xml', `${prolog}<feed><cow/></feed>`)).to.equal('code');
  });

  it('is fast for many HTML comments without a page', () => {
    expect(formatOf('a.txt', '<!-- -->'.repeat(8_000))).to.equal('text');
  });
});
