import { readFileSync } from 'node:fs';
import { expect } from 'chai';
import iconv from 'iconv-lite';
import { decodeText, findDeclaredEncoding } from '#src/adapters/converter/decode-text.ts';
import { cleanMarkdown, cleanParsedDocument, cleanText } from '#src/adapters/converter/parsed-document.ts';

describe('decoding a text file', () => {
  const holds = (text: string, encoding: string, options = {}) =>
    expect(decodeText(iconv.encode(text, encoding, options)), `${encoding}: ${text}`).equal(text);

  it('reads every Unicode encoding with and without a byte order mark', () => {
    const words = 'Grüße aus Köln, naïve Café-Gäste über allen Gipfeln';
    for (const encoding of ['utf8', 'utf-16le', 'utf-16be', 'utf-32le']) holds(words, encoding, { addBOM: true });
    holds(words, 'utf8');
    holds('plain words', 'utf-16le');
    // Valid UTF-8, too.
    expect(decodeText(Buffer.from('Re: \x1b$B5Y2K\x1b(B', 'latin1'))).equal('Re: 休暇');
  });

  const lines = readFileSync(new URL('cases/encodings.txt', import.meta.url), 'utf8').split('\n');
  for (const line of lines.filter((each) => each.includes(' | '))) {
    it(`detects ${line.replace(' | ', ' without a declaration in: ')}`, () => {
      const [encodings = '', text = ''] = line.split(' | ');
      for (const encoding of encodings.split(', ')) holds(text, encoding);
    });
  }

  it('prefers the declared encoding to a detected one', () => {
    expect(decodeText(iconv.encode('Škoda žluťoučký', 'windows-1250'), 'windows-1250')).equal('Škoda žluťoučký');
    // Pages that declare Latin-1 use the quotes of windows-1252.
    expect(decodeText(iconv.encode('“Grüße”', 'windows-1252'), 'ISO-8859-1')).equal('“Grüße”');
  });

  it('ignores a declaration of UTF-8 by text that is none, and reads UTF-8 with a letter cut off as UTF-8', () => {
    const arabic = 'يحق لكل موظف ثلاثون يوما من الإجازة في السنة';
    expect(decodeText(iconv.encode(arabic, 'windows-1256'), 'utf-8')).equal(arabic);
    expect(decodeText(Buffer.from('Grüße, Köln, größer, früher ä').subarray(0, -1))).equal(
      'Grüße, Köln, größer, früher \ufffd',
    );
  });

  it('finds the encoding that an HTML page declares', () => {
    for (const [page, encoding] of [
      ['<html><head><meta charset="windows-1251">', 'windows-1251'],
      ['<meta http-equiv="Content-Type" content="text/html; charset=EUC-JP">', 'EUC-JP'],
      ['<?xml version="1.0" encoding="iso-8859-2"?><html>', 'iso-8859-2'],
      ['<html><p>charset=utf-7</p>', undefined],
    ] as const) {
      expect(findDeclaredEncoding(Buffer.from(page)), page).equal(encoding);
    }
  });
});

describe('cleaning a text', () => {
  it('removes invisible characters and lone surrogates, composes letters, and normalizes newlines', () => {
    for (const [text, cleaned] of [
      ['a\u0000b\u200bc\u202ed\u{e0041}e\ufeff', 'abcde'],
      // The joiners of scripts and emoji.
      ['👩\u200d💻 نمی\u200cخواهم', '👩\u200d💻 نمی\u200cخواهم'],
      ['a\ud800b\r\nc\rd\fe\u0301', 'a\ufffdb\nc\nd\né'],
    ] as const) {
      expect(cleanText(text)).equal(cleaned);
    }
    expect(cleanMarkdown('\n\n  a  \n\n\n\nb\t\n\n'), 'at most one empty line in a row').equal('  a\n\nb');
  });

  it('gives each page, also an empty one, the offset at which its cleaned text starts', () => {
    for (const [pages, body, pageMap] of [
      [['\n# One\r\n\n\n\nwords  ', '# Two\u200b', 'Three'], '# One\n\nwords\n\n# Two\n\nThree', [0, 14, 21]],
      [['', 'Two', ' \n', 'Four', ''], 'Two\n\nFour', [0, 0, 3, 5, 9]],
      [' words \n', ' words', null],
    ] as const) {
      const cleaned = cleanParsedDocument({ body: typeof pages === 'string' ? pages : [...pages], title: 'T' });
      expect(cleaned).eql({ body, pageMap, title: 'T' });
    }
  });
});
