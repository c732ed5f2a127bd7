import { expect } from 'chai';
import fc from 'fast-check';
import {
  createCitationMarkerRewriter,
  type DroppedCitation,
  sentenceBeforeCitationMarker,
} from '#src/domain/chat/citation-markers.ts';
import { collect } from '#test/support/collect.ts';
import { propertyRuns } from '#test/support/property-runs.ts';

const passages = ['leave', 'office', 'salary'] as const;
type Passage = (typeof passages)[number];
type Check = Parameters<typeof createCitationMarkerRewriter<Passage>>[1];

const allHold: Check = async () => null;

async function* inPieces(pieces: readonly string[]): AsyncGenerator<string> {
  yield* pieces;
}

async function rewrite(
  pieces: readonly string[],
  check: Check = allHold,
): Promise<{ text: string; cited: readonly Passage[]; dropped: DroppedCitation[] }> {
  const markers = createCitationMarkerRewriter(passages, check);
  const text = (await collect(markers.rewrite(inPieces(pieces)))).join('');
  return { text, ...markers.found() };
}

describe('markers of a reply', () => {
  it('are numbered by first mention', async () => {
    expect(await rewrite(['Open till six [2]. Paid leave [1], till six [2].'])).deep.equal({
      text: 'Open till six [1]. Paid leave [2], till six [1].',
      cited: ['office', 'leave'],
      dropped: [],
    });
  });

  it('lose unsupported numbers, and are removed with their space if none is left', async () => {
    const check: Check = async (passage) => (passage === 'salary' ? 'unreadable' : null);
    expect(await rewrite(['Paid [3, 1, 1]. Secret [3] pay.[9] Nothing [0] [3]!'], check)).deep.equal({
      text: 'Paid [1]. Secret pay. Nothing!',
      cited: ['leave'],
      dropped: [
        { n: 3, reason: 'unreadable' },
        { n: 9, reason: 'out_of_range' },
        { n: 0, reason: 'out_of_range' },
      ],
    });
  });

  it('are each checked with the sentence before them', async () => {
    const judged: string[] = [];
    await rewrite(
      ['Leave is paid [1] and long. [2, 3] Hours vary.[1][2]\nNext\n\n[3] line'],
      async (passage, statement) => {
        judged.push(`${passage}: ${statement}`);
        return null;
      },
    );
    expect(judged).deep.equal([
      'leave: Leave is paid',
      'office: Leave is paid and long.',
      'salary: Leave is paid and long.',
      'leave: Hours vary.',
      'office: Hours vary.',
      'salary: Next',
    ]);
  });

  it('are not in code, links, other brackets and long lists', async () => {
    const text = 'See [link](x), [x], a[12], [1a], [123], [], [1.5] and [1, 2, 3, 4, 5, 6, 7, 8, 9].';
    expect(await rewrite([text])).deep.equal({ text, cited: [], dropped: [] });
  });

  it('may stand directly behind a word when they name a passage', async () => {
    expect((await rewrite(['Paid[2, 9].'])).text).equal('Paid[1].');
  });

  it('do not close up to others when one between them is left out', async () => {
    expect((await rewrite(['[[9]1] and [1 [9], 3]'])).text).equal('[[]1] and [1 [], 3]');
  });

  it('delay only text that may become a marker', async () => {
    const markers = createCitationMarkerRewriter(passages, allHold);
    const parts = await collect(
      markers.rewrite(inPieces(['Paid', ' leave ', '[', '2', ']', ' [', 'x', '] and [1', ', '])),
    );
    expect(parts).deep.equal(['Paid', ' leave', ' [1]', ' [x', '] and', ' [1, ']);
  });
});

describe('markers of any reply', () => {
  const part = fc.constantFrom(
    '[',
    ']',
    '1',
    '2',
    '3',
    '12',
    ',',
    ' ',
    '. ',
    '\n',
    'word',
    '[1]',
    ' [2]',
    '[3, 1]',
    '1, 2, 3, 1, 2, 3, 1, ',
    '[x]',
    '😀',
  );
  const parts = fc.array(part, { maxLength: 40 });
  /** Holds for some pairs of passage and statement, always for the same. */
  const check: Check = async (passage, statement) =>
    (passage.length + statement.length) % 3 === 0 ? 'unsupported' : null;

  it('do not depend on how the text is split', async () => {
    await fc.assert(
      fc.asyncProperty(parts, fc.array(fc.nat({ max: 30 })), async (text, cuts) => {
        const whole = text.join('');
        const pieces: string[] = [];
        let rest = whole;
        for (const cut of cuts) {
          pieces.push(rest.slice(0, cut));
          rest = rest.slice(cut);
        }
        const expected = await rewrite([whole], check);
        expect(await rewrite([...pieces, rest], check)).deep.equal(expected);
        expect(await rewrite(whole.split(''), check)).deep.equal(expected);
      }),
    );
  });

  it('name exactly the citations', async () => {
    await fc.assert(
      fc.asyncProperty(parts, async (text) => {
        const { text: reply, cited } = await rewrite(text, check);
        const named = [...reply.matchAll(/\[(\d{1,2}(?:\s*,\s*\d{1,2})*)\]/g)]
          .filter(([marker]) => marker.length <= 24)
          .flatMap(([, list = '']) => list.split(',').map(Number))
          .filter((k) => k <= passages.length);
        expect([...new Set(named)]).deep.equal(cited.map((_, index) => index + 1));
      }),
      { numRuns: propertyRuns(1_000) },
    );
  });

  it('leave a text without markers unchanged', async () => {
    const textWithout = fc
      .array(fc.oneof(fc.string(), fc.constantFrom('[', '] ', ' [x]', '1, ', '\n')))
      .filter((text) => !/\[[\d,\s]+\]/.test(text.join('')));
    await fc.assert(
      fc.asyncProperty(textWithout, async (text) => {
        expect(await rewrite(text, check)).deep.equal({ text: text.join(''), cited: [], dropped: [] });
      }),
    );
  });
});

describe('the statement before a marker', () => {
  it('excludes other markers, and does not end at an abbreviation', () => {
    expect(sentenceBeforeCitationMarker('One. Dr. Who [1] came ')).equal('Dr. Who came');
    expect(sentenceBeforeCitationMarker('[1]\n')).equal('');
  });
});
