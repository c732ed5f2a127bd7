import { expect } from 'chai';
import { namesOfWebDocument, publicSourceUrl } from '#src/domain/documents/web-document.ts';

describe('the source URL of a fetched document', () => {
  const cases: [string, string][] = [
    ['https://example.com/a?id=7&lang=de#part', 'https://example.com/a?id=7&lang=de'],
    ['https://ada:secret@example.com/a', 'https://example.com/a'],
    ['https://example.com/a?q=a+b%20c', 'https://example.com/a?q=a+b%20c'],
    ['https://example.com/a?page=2&access_token=x&apiKey=x', 'https://example.com/a?page=2'],
    ['https://s3.example.com/a?X-Amz-Signature=x&X-Amz-Credential=x&x-amz-date=1', 'https://s3.example.com/a'],
    ['https://example.com/a?code=x&ticket=x&hmac=x&bearer=x&AWSAccessKeyId=x&v=2', 'https://example.com/a?v=2'],
    ['https://blob.example.com/a?sv=1&sig=x&PASSWORD=x&jwt=x', 'https://blob.example.com/a?sv=1'],
  ];
  for (const [asked, said] of cases) {
    it(`is ${said} for ${asked}`, () => {
      expect(publicSourceUrl(asked)).to.equal(said);
    });
  }
});

describe('the names of a fetched document', () => {
  const facts = { finalUrl: 'https://example.com/a/report', mediaType: 'text/html', fileName: null, title: null };
  const cases: [
    string,
    Partial<Omit<typeof facts, 'fileName' | 'title'>> & { fileName?: string; title?: string },
    string,
    string,
  ][] = [
    ['the last part of its address', {}, 'report', 'report.html'],
    ['its title', { title: 'Annual  report' }, 'Annual report', 'report.html'],
    ['what its server says', { fileName: 'R1.htm', title: 'Annual' }, 'R1.htm', 'R1.htm'],
    ['no path', { fileName: '..\\..\\etc/passwd' }, 'passwd', 'passwd.html'],
    ['one line', { title: 'a\u202eb\nc\u0007' }, 'ab c', 'report.html'],
    ['its host', { finalUrl: 'https://example.com/' }, 'example.com', 'example.com.html'],
    ['a decoded part', { finalUrl: 'https://example.com/%C3%BCber%2Funs/' }, 'über uns', 'über uns.html'],
    ['a part that cannot be decoded', { finalUrl: 'https://example.com/100%' }, '100%', '100%.html'],
    ['a page of a program', { finalUrl: 'https://example.com/index.php' }, 'index.php', 'index.php.html'],
    ['a PDF', { mediaType: 'application/pdf;x=y' }, 'report', 'report.pdf'],
    ['JSON of a kind', { mediaType: 'application/geo+json' }, 'report', 'report.json'],
    ['a feed', { mediaType: 'application/atom+xml' }, 'report', 'report.xml'],
    ['a program', { finalUrl: 'https://example.com/fox.py', mediaType: 'text/plain' }, 'fox.py', 'fox.py'],
    ['of a type that says nothing', { mediaType: 'application/octet-stream' }, 'report', 'report'],
  ];
  for (const [what, given, name, fileName] of cases) {
    it(`are ${name} and ${fileName}: ${what}`, () => {
      expect(namesOfWebDocument({ ...facts, ...given })).to.deep.equal({ name, fileName });
    });
  }

  it('have at most 255 characters, with the extension', () => {
    const { name, fileName } = namesOfWebDocument({ ...facts, finalUrl: `https://example.com/${'x'.repeat(400)}` });
    expect([name.length, fileName.length]).to.deep.equal([255, 255]);
    expect(fileName).to.match(/x\.html$/);
  });
});
