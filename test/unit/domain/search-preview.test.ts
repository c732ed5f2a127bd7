import { expect } from 'chai';
import fc from 'fast-check';
import { highlightBestPassage, previewOfBeginning } from '#src/domain/retrieval/search-preview.ts';
import { containsTermPhrase, quotedPhrases } from '#src/domain/text/words.ts';

const wanted =
  (...words: string[]) =>
  (word: string) =>
    words.includes(word.toLowerCase()) ? word : undefined;

/** As a browser shows it. */
const shown = (html: string) =>
  html
    .replaceAll(/<\/?mark>/g, '')
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&quot;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&amp;', '&');

describe('the preview of a text', () => {
  it('is escaped, short and part of the text for random texts', () => {
    const piece = fc.constantFrom('apple', '<b>', '&amp;', '"', "'", '<mark>', '😀', ' ', '\n', 'pear', 'é');
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 200 }), fc.boolean(), (pieces, isSpaced) => {
        const text = pieces.join(isSpaced ? ' ' : '');
        const flat = text.replaceAll(/\s+/g, ' ').trim();
        for (const html of [highlightBestPassage(text, wanted('apple')), previewOfBeginning(text)]) {
          if (html === null) continue;
          expect(html.replaceAll(/<mark>apple<\/mark>/g, '')).not.match(/[<>"']|&(?!(amp|lt|gt|quot|#39);)/);
          const passage = shown(html).replaceAll('…', '');
          expect(flat).contain(passage);
          expect(passage.length).most(280);
          expect(passage.isWellFormed()).equal(true);
        }
      }),
    );
  });

  it('is the passage with the most query words close together', () => {
    const text = `apple ${'filler '.repeat(80)} pear and apple ${'filler '.repeat(80)} apple pear ${'filler '.repeat(80)}`;
    const html = highlightBestPassage(text, wanted('apple', 'pear')) ?? '';
    expect(html).contain('<mark>apple</mark> <mark>pear</mark>');
    expect(html).match(/^…filler .* filler…$/);
    expect(highlightBestPassage(text, wanted('plum'))).equal(null);
  });

  it('shows a short text whole', () => {
    expect(highlightBestPassage('One\n\n apple.', wanted('apple'))).equal('One <mark>apple</mark>.');
    expect([previewOfBeginning('One & two'), previewOfBeginning('')]).deep.equal(['One &amp; two', '']);
  });
});

describe('phrases', () => {
  const terms = (text: string) => text.split(' ').map((stem) => ({ stem, isStopWord: false }));

  it('are texts in closed quotes', () => {
    expect(quotedPhrases('a "b c" d “e” "f')).deep.equal(['b c', 'e']);
    expect(quotedPhrases('"" " "')).deep.equal([]);
  });

  it('match a text with their words in sequence', () => {
    expect(containsTermPhrase(terms('a b c d'), terms('b c'))).equal(true);
    expect(containsTermPhrase(terms('a b x c'), terms('b c'))).equal(false);
    expect(containsTermPhrase(terms('a b'), terms('b c'))).equal(false);
  });
});
