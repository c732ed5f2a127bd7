import { expect } from 'chai';
import { organizationOfBlobKey, originalBlobKey } from '#src/domain/documents/blob-keys.ts';
import {
  charsetOfMediaType,
  codeLanguageOfFile,
  detectTextFormat,
  guessSourceFormat,
  isOfficeFormat,
  mediaTypeOfFormat,
} from '#src/domain/documents/formats.ts';
import { documentNameFromFile, folderNamesBelowBasePath, parentFolderPath } from '#src/domain/documents/names.ts';
import { namesOfWebDocument, publicSourceUrl } from '#src/domain/documents/web-document.ts';

describe('the format of a file', () => {
  it('is guessed from the file name or the media type, and is unknown if neither tells it', () => {
    const byName = { 'report.PDF': 'pdf', 'letter.docx': 'docx', 'page.htm': 'html', 'main.py': 'code', any: null };
    for (const [fileName, format] of Object.entries({ ...byName, 'table.tsv': 'csv', 'photo.png': 'image' })) {
      expect(guessSourceFormat({ fileName, mediaType: 'application/octet-stream' }), fileName).to.equal(format);
    }
    const byType = { 'application/pdf': 'pdf', 'application/json; charset=utf-8': 'json', 'image/png': 'image' };
    const others = {
      'TEXT/CSV ;header=present': 'csv',
      'application/rss+xml': 'html',
      'application/vnd.ms-excel': 'xls',
      'video/mp4': null,
      'text/plain': 'text',
    };
    for (const [mediaType, format] of Object.entries({ ...byType, ...others })) {
      expect(guessSourceFormat({ fileName: 'file', mediaType }), mediaType).to.equal(format);
    }
    expect(guessSourceFormat({ fileName: 'notes.TXT', mediaType: null })).to.equal('text');
    const texts = { 'notes.md': 'markdown', 'notes.constructor': 'text', 'sheet.xls': 'xls' };
    for (const [fileName, format] of Object.entries(texts)) {
      expect(guessSourceFormat({ fileName, mediaType: 'text/plain' }), fileName).to.equal(format);
    }
  });

  it('is read from the first characters of a text, else from the file name, else from the declared media type', () => {
    for (const [head, fileName, declaredMediaType, format] of [
      [' \n%!PS-Adobe-3.0', 'a.txt', undefined, null],
      [' <?xml version="1.0"?>\n<!-- a --> <html>', 'a.txt', undefined, 'html'],
      ['<!-- never closed', 'a.md', undefined, 'markdown'],
      ['plain', 'a', 'text/markdown; charset=x', 'markdown'],
      ['plain', 'a', ' text/markdown', 'markdown'],
      ['plain', 'a.html', undefined, 'text'],
      ['plain', 'a', undefined, 'text'],
    ] as const) {
      const declared = declaredMediaType && { declaredMediaType };
      expect(detectTextFormat({ head, fileName, ...declared }), head).to.equal(format);
    }
  });

  it('counts as an office format if it is `docx` or `ods`, but not if it is `pdf`', () => {
    expect(['docx', 'ods', 'pdf', null].map(isOfficeFormat)).to.deep.equal([true, true, false, false]);
  });

  it('comes with a programming language from the extension, and with a charset from the media type', () => {
    expect(['main.PY', 'any', 'notes.constructor'].map(codeLanguageOfFile)).to.deep.equal(['python', '', '']);
    const charsets = ['text/plain; charset="UTF-8"', 'text/html;Charset = latin1', 'text/html'].map(charsetOfMediaType);
    expect(charsets).to.deep.equal(['utf-8', 'latin1', undefined]);
  });

  it('determines the media type of a download, `application/octet-stream` for an unknown format', () => {
    const types = ['pdf', 'code', 'image', 'unheard', null].map((format) => mediaTypeOfFormat(format, 'a.png'));
    const binary = 'application/octet-stream';
    expect(types).to.deep.equal(['application/pdf', 'text/plain', 'image/png', binary, binary]);
  });
});

describe('the name of an imported document', () => {
  it('is its file name on one line, and its folders are those of its path below the base path', () => {
    for (const [fileName, name] of [
      [' plan\n\u202e.txt ', 'plan.txt'],
      ['', 'Untitled'],
      [`${'x'.repeat(254)} y`, 'x'.repeat(254)],
      [`${'x'.repeat(254)}😀`, `${'x'.repeat(254)}\ufffd`],
    ] as const) {
      expect(documentNameFromFile(fileName)).equal(name);
    }
    expect(folderNamesBelowBasePath('a', 'a/b/c/plan.txt')).deep.equal(['b', 'c']);
    expect(folderNamesBelowBasePath('', 'a/ /plan.txt')).deep.equal(['a', 'Untitled']);
    expect(folderNamesBelowBasePath('a/b', `a/b/${'c/'.repeat(30)}plan.txt`)).deep.equal(Array(24).fill('c'));
    expect(['a/b/plan.txt', 'plan.txt'].map(parentFolderPath)).deep.equal(['a/b', '']);
    const orgId = '019f0000-0000-7000-8000-000000000000';
    expect([originalBlobKey(orgId, 'ab12'), 'ab12'].map(organizationOfBlobKey)).deep.equal([orgId, null]);
  });
});

describe('a document fetched from the web', () => {
  it('shows its source URL without credentials, tokens, signatures and fragments', () => {
    for (const [url, shown] of [
      ['https://example.com/a?id=7&lang=de#part', 'https://example.com/a?id=7&lang=de'],
      ['https://ada:secret@example.com/a', 'https://example.com/a'],
      ['https://example.com/a?q=a+b%20c', 'https://example.com/a?q=a+b%20c'],
      ['https://example.com/a?page=2&access_token=x&apiKey=x', 'https://example.com/a?page=2'],
      ['https://s3.example.com/a?X-Amz-Signature=x&X-Amz-Credential=x&x-amz-date=1', 'https://s3.example.com/a'],
      ['https://example.com/a?code=x&ticket=x&hmac=x&bearer=x&AWSAccessKeyId=x&v=2', 'https://example.com/a?v=2'],
      ['https://blob.example.com/a?sv=1&sig=x&PASSWORD=x&jwt=x', 'https://blob.example.com/a?sv=1'],
    ] as const) {
      expect(publicSourceUrl(url)).to.equal(shown);
    }
  });

  it('is named by its server, its title or its URL', () => {
    const page = { finalUrl: 'https://example.com/a/report', mediaType: 'text/html', fileName: null, title: null };
    for (const [facts, name, fileName] of [
      [{}, 'report', 'report.html'],
      [{ title: 'Annual  report' }, 'Annual report', 'report.html'],
      [{ fileName: 'R1.htm', title: 'Annual' }, 'R1.htm', 'R1.htm'],
      [{ fileName: '..\\..\\etc/passwd' }, 'passwd', 'passwd.html'],
      [{ title: 'a\u202eb\nc\u0007' }, 'ab c', 'report.html'],
      [{ finalUrl: 'https://example.com/' }, 'example.com', 'example.com.html'],
      [{ finalUrl: 'https://example.com/%C3%BCber%2Funs/' }, 'über uns', 'über uns.html'],
      [{ finalUrl: 'https://example.com/100%' }, '100%', '100%.html'],
      [{ finalUrl: 'https://example.com/index.php' }, 'index.php', 'index.php.html'],
      [{ mediaType: 'application/pdf;x=y' }, 'report', 'report.pdf'],
      [{ mediaType: 'application/geo+json' }, 'report', 'report.json'],
      [{ mediaType: 'application/atom+xml' }, 'report', 'report.xml'],
      [{ finalUrl: 'https://example.com/fox.py', mediaType: 'text/plain' }, 'fox.py', 'fox.py'],
      [{ mediaType: 'application/octet-stream' }, 'report', 'report'],
    ] as const) {
      expect(namesOfWebDocument({ ...page, ...facts })).to.deep.equal({ name, fileName });
    }
    expect(namesOfWebDocument({ ...page, title: ' \u202e a ' })).include({ name: 'a' });
    for (const [mediaType, extension, other] of [
      ['application/json', 'json', 'ipynb'],
      ['application/xhtml+xml', 'html', 'xhtml'],
      ['application/xml', 'xml', 'xsd'],
      ['text/csv', 'csv', 'CSV'],
      ['text/markdown', 'md', 'mdx'],
      ['text/tab-separated-values', 'tsv', 'tab'],
      ['text/xml', 'xml', 'xsl'],
    ] as const) {
      expect(namesOfWebDocument({ ...page, mediaType }).fileName).to.equal(`report.${extension}`);
      const fileName = `a.${other}`;
      expect(namesOfWebDocument({ ...page, fileName, mediaType })).to.include({ fileName });
    }
    const { name, fileName } = namesOfWebDocument({ ...page, finalUrl: `https://example.com/${'x'.repeat(400)}` });
    expect([name.length, fileName.length]).to.deep.equal([255, 255]);
    expect(fileName).to.match(/x\.html$/);
  });
});
