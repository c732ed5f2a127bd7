import { expect } from 'chai';
import iconv from 'iconv-lite';
import { cleanMarkdown, cleanText } from '#src/adapters/converter/clean-text.ts';
import { decodeText, htmlEncoding } from '#src/adapters/converter/decode-text.ts';

describe('decoding text', () => {
  const words = 'Grüße aus Köln, naïve Café-Gäste über allen Gipfeln';

  it('reads every Unicode encoding, with and without its mark', () => {
    for (const encoding of ['utf8', 'utf-16le', 'utf-16be', 'utf-32le']) {
      expect(decodeText(iconv.encode(words, encoding, { addBOM: true })), encoding).to.equal(words);
    }
    expect(decodeText(Buffer.from(words))).to.equal(words);
    expect(decodeText(iconv.encode('plain words', 'utf-16le'))).to.equal('plain words');
  });

  it('guesses older encodings', () => {
    expect(decodeText(iconv.encode(words, 'windows-1252'))).to.equal(words);
    const japanese = '吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。';
    expect(decodeText(iconv.encode(japanese, 'shift_jis'))).to.equal(japanese);
  });

  it('believes the encoding that a document names before it guesses', () => {
    expect(decodeText(iconv.encode('Škoda žluťoučký', 'windows-1250'), 'windows-1250')).to.equal('Škoda žluťoučký');
    // Who says Latin-1 uses the quotes of windows-1252.
    expect(decodeText(iconv.encode('“Grüße”', 'windows-1252'), 'ISO-8859-1')).to.equal('“Grüße”');
  });
});

describe('the encoding that a page names', () => {
  const cases: [string, string | undefined][] = [
    ['<html><head><meta charset="windows-1251">', 'windows-1251'],
    ['<meta http-equiv="Content-Type" content="text/html; charset=EUC-JP">', 'EUC-JP'],
    ['<?xml version="1.0" encoding="iso-8859-2"?><html>', 'iso-8859-2'],
    ['<html><p>charset=utf-7</p>', undefined],
  ];
  for (const [page, encoding] of cases) {
    it(`is ${encoding ?? 'none'} in ${page}`, () => {
      expect(htmlEncoding(Buffer.from(page))).to.equal(encoding);
    });
  }
});

describe('cleaning text', () => {
  it('takes out what no reader sees', () => {
    expect(cleanText('a\u0000b\u200bc\u202ed\u{e0041}e\ufeff')).to.equal('abcde');
  });

  it('keeps joiners of scripts and emoji', () => {
    expect(cleanText('👩\u200d💻 نمی\u200cخواهم')).to.equal('👩\u200d💻 نمی\u200cخواهم');
  });

  it('leaves no lone surrogate, one kind of newline and composed letters', () => {
    expect(cleanText('a\ud800b\r\nc\rd\fe\u0301')).to.equal('a\ufffdb\nc\nd\né');
  });

  it('leaves at most one empty line', () => {
    expect(cleanMarkdown('\n\n  a  \n\n\n\nb\t\n\n')).to.equal('  a\n\nb');
  });
});
