import { expect } from 'chai';
import { canonicalJson } from '#src/domain/text/canonical-json.ts';
import { attachmentContentDisposition } from '#src/domain/text/content-disposition.ts';
import { escapeMarkdown, isBlank, isStorableInPostgres } from '#src/domain/text/plain-text.ts';
import { isCharacterBoundaryInText, type TokenCounter, truncateToTokens } from '#src/domain/text/tokens.ts';
import { containsTermPhrase, queryTerms, quotedPhrases, splitSentences } from '#src/domain/text/words.ts';

describe('sentences of plain text', () => {
  it('end at full stops of all scripts, but not at abbreviations, initials and decimals', () => {
    const split = (text: string) => splitSentences(text).map(({ start, end }) => text.slice(start, end).trim());
    const sentences = split('One. Two! (Three?) “Four.” 五。六！ Seven');
    expect(sentences).to.deep.equal(['One.', 'Two!', '(Three?)', '“Four.”', '五。', '六！', 'Seven']);
    const single = 'Mr. A. Smith (b. 1950) owns approx. 3.5 acres, e.g. a field vs. the U.S. park.';
    expect(split(single)).to.deep.equal([single]);
  });

  it('exist only in a text with visible characters: one of only spaces and invisible characters is blank', () => {
    const blank = ['', ' \t\u00a0\u3000', '\u200b\u200d\ufeff', '\u3164', '\u2800', '\u{e0041}'];
    for (const text of blank) expect(isBlank(text), JSON.stringify(text)).equal(true);
    for (const text of ['a', ' 0 ', '\u200bа', '李', '👩‍🚀', '.']) expect(isBlank(text), text).equal(false);
  });
});

describe('words and characters of a text', () => {
  it('match a quoted phrase only where its words follow each other directly', () => {
    const terms = (text: string) => text.split(' ').map((stem) => ({ stem, isStopWord: false }));
    expect(quotedPhrases('a "b c" d “e” "f')).deep.equal(['b c', 'e']);
    expect(quotedPhrases('"" " "')).deep.equal([]);
    const found = ['a b c d', 'a b x c', 'a b'].map((text) => containsTermPhrase(terms(text), terms('b c')));
    expect(found).deep.equal([true, false, false]);
  });

  it('give the terms of a query in each language, without the stop words of the language that has the most', () => {
    const stopWords: Record<string, string[]> = { en: ['what', 'was', 'the'], de: ['was', 'war'] };
    const analyze = (text: string, language = 'en') =>
      text
        .split(' ')
        .map((word) => ({ stem: `${word}.${language}`, isStopWord: !!stopWords[language]?.includes(word) }));
    for (const [query, languages, terms] of [
      ['what was the war', ['en', 'de'], ['war.en']],
      ['war plan', ['en', 'de'], ['war.en', 'plan.en', 'plan.de']],
      ['was war plan', ['en', 'de'], ['plan.en', 'plan.de']],
      ['the plan', ['en'], ['plan.en']],
      ['plan', [], []],
    ] as const) {
      expect(queryTerms(query, languages, analyze), query).deep.equal(terms);
    }
  });

  it('stay whole when a text is truncated, also pairs of surrogates and line breaks of two characters', () => {
    for (const whole of [
      ['\ud800\udc00', '\udbff\udfff', '\udc00', '\udc00'],
      ['a', '\ud7ff', '\udc00', '\ud800', '\udbff', '\ue000'],
      ['a', '\n', '\r', '\r\n', '\r', 'a'],
    ]) {
      const text = whole.join('');
      const ends = Array.from(text, (_, index) => index + 1).concat(text.length);
      const found = new Set(whole.map((_, index) => whole.slice(0, index + 1).join('').length));
      for (const end of ends) expect(isCharacterBoundaryInText(text, end), whole[0]).equal(found.has(end));
    }
    const characters: TokenCounter = { count: (text) => text.length, measure: () => (start, end) => end - start };
    for (const [text, tokens, length] of [
      ['abc', 2, 2],
      ['abc', 3, 3],
      ['abc', 9, 3],
      ['abc', 0, 0],
      ['😀😀', 3, 2],
      ['😀', 1, 0],
      ['x'.repeat(100), 10, 10],
    ] as const) {
      expect(truncateToTokens(text, tokens, characters), `${text} ${tokens}`).equal(text.slice(0, length));
    }
  });

  it('are reported as not storable in Postgres if they are NUL or half of a surrogate pair', () => {
    expect(['a', '\0', '\ud800'].map(isStorableInPostgres)).deep.equal([true, false, false]);
  });

  it('are escaped in Markdown, as one line without emphasis, links, images, HTML and tables', () => {
    const text = ' *A* ![b](https://c)\n www.d <e> | `f` ~g~ & {h} # _i_ $1 j@k \\';
    const escaped = String.raw`\*A\* \!\[b\](https\://c) www\.d \<e\> \| \`f\` \~g\~ \& \{h\} \# \_i\_ \$1 j\@k \\`;
    expect(escapeMarkdown(text)).equal(escaped);
  });

  it('are escaped in the file name of a download', () => {
    const header = `attachment; filename="a_b _(1).pdf"; filename*=UTF-8''a%22b%20%c3%a9%281%29.pdf`;
    expect(attachmentContentDisposition('a"b é(1).pdf').toLowerCase()).equal(header.toLowerCase());
  });

  it('of JSON are the same for every order of the keys', () => {
    expect(canonicalJson({ b: [2, { d: 1, c: null }], a: 'x', c: 1 })).equal(
      '{"a":"x","b":[2,{"c":null,"d":1}],"c":1}',
    );
  });
});
