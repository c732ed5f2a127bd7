import { expect } from 'chai';
import { detectArchiveFormat } from '#src/adapters/converter/detect-format.ts';
import { parseEpub } from '#src/adapters/converter/formats/epub.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { zipFile } from '#test/support/document-fixtures.ts';

/** Chapters in the order of the spine; the parts lie in the order of their names. */
async function bookOf(chapters: [name: string, body: string][], parts: Record<string, string> = {}) {
  const items = chapters.map(
    ([name], index) => `<item id="c${index}" href="${name}" media-type="application/xhtml+xml"/>`,
  );
  const spine = chapters.map((_, index) => `<itemref idref="c${index}"/>`);
  const pages = chapters.map(([name, body]) => [
    `OPS/${decodeURIComponent(name)}`,
    `<?xml version="1.0"?><!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.1//EN" "x.dtd"><html xmlns="http://www.w3.org/1999/xhtml"><head><title>x</title></head><body>${body}</body></html>`,
  ]);
  const bytes = zipFile({
    mimetype: 'application/epub+zip',
    'META-INF/container.xml':
      '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles><rootfile full-path="OPS/book.opf"/></rootfiles></container>',
    'OPS/book.opf': `<package xmlns="http://www.idpf.org/2007/opf"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>The Book</dc:title></metadata><manifest><item id="nav" href="nav.xhtml" properties="nav" media-type="application/xhtml+xml"/><item id="ncx" href="toc.ncx" media-type="application/x-dtbncx+xml"/>${items.join('')}</manifest><spine><itemref idref="nav"/>${spine.join('')}</spine></package>`,
    ...Object.fromEntries(pages.sort()),
    ...parts,
  });
  return parseEpub({ bytes, fileName: 'a.epub' });
}

const encryption = (algorithm: string) => ({
  'META-INF/encryption.xml': `<encryption xmlns="urn:oasis:names:tc:opendocument:xmlns:container" xmlns:e="http://www.w3.org/2001/04/xmlenc#"><e:EncryptedData><e:EncryptionMethod Algorithm="${algorithm}"/></e:EncryptedData></encryption>`,
});

describe('parseEpub', () => {
  it('reads chapters in spine order, headed by their names in the table of contents', async () => {
    const nav = '<html><body><nav><ol><li><a href="b%20c.xhtml#top">Arrival</a></li></ol></nav></body></html>';
    const ncx =
      '<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><navMap><navPoint><navLabel><text>Part one</text></navLabel><content src="z.xhtml"/><navPoint><navLabel><text>Rest</text></navLabel><content src="a.xhtml"/></navPoint></navPoint></navMap></ncx>';
    const { body, title } = await bookOf(
      [
        ['z.xhtml', '<h2>Its own heading</h2><p>First.</p>'],
        ['b%20c.xhtml', '<a id="top"/><p>We came <i>late</i>.</p><ul><li>one</li></ul>'],
        ['a.xhtml', '<p>Rest</p><p>Last.</p>'],
      ],
      { 'OPS/nav.xhtml': nav, 'OPS/toc.ncx': ncx },
    );
    expect(body).to.equal(
      ['## Its own heading', 'First.', '# Arrival', 'We came late.', '- one', '# Rest', 'Last.'].join('\n\n'),
    );
    expect(title).to.equal('The Book');
  });

  it('reads a chapter once if the spine lists it twice', async () => {
    const spine = '<spine><itemref idref="a"/><itemref idref="a"/></spine>';
    const book = `<package xmlns="http://www.idpf.org/2007/opf"><manifest><item id="a" href="a.xhtml"/></manifest>${spine}</package>`;
    const { body } = await bookOf([['a.xhtml', '<p>Once</p>']], { 'OPS/book.opf': book });
    expect(body).to.equal('Once');
  });

  it('keeps the text after a self-closing element', async () => {
    const { body } = await bookOf([
      ['a.xhtml', '<script src="a.js"/><p>Kept<br/>whole<a id="x"/></p><svg/><p>To the end</p>'],
    ]);
    expect(body).to.equal('Kept  \nwhole\n\nTo the end');
  });

  it('is detected by its parts when the media type is not the first entry', () => {
    expect(detectArchiveFormat(['META-INF/container.xml', 'OPS/book.opf', 'mimetype'])).equal('epub');
    expect(detectArchiveFormat(['META-INF/container.xml', 'score.xml'])).equal(undefined);
  });

  it('rejects copy protection, but accepts obfuscated fonts', async () => {
    const chapter: [string, string][] = [['a.xhtml', '<p>Text</p>']];
    const locked = bookOf(chapter, encryption('http://www.w3.org/2001/04/xmlenc#aes256-cbc'));
    expect(await appErrorCode(locked)).to.equal('encrypted_document');
    const scrambled = await bookOf(chapter, encryption('http://www.idpf.org/2008/embedding'));
    expect(scrambled.body).to.equal('Text');
  });
});
