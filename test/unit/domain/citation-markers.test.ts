import { expect } from 'chai';
import fc from 'fast-check';
import {
  createCitationMarkerRewriter,
  type DroppedCitation,
  findSourcePassages,
  removeCitationMarkers,
  scoreSentenceAttribution,
  sentenceBeforeCitationMarker,
  shareOfWordsInPassage,
  splitReplyIntoStatements,
} from '#src/domain/chat/citation-markers.ts';
import { collect } from '#test/support/collect.ts';
import { propertyRuns } from '#test/support/seeded.ts';

const passages = ['leave', 'office', 'salary'] as const;
type Passage = (typeof passages)[number];
type Check = Parameters<typeof createCitationMarkerRewriter<Passage>>[1];

async function* inPieces(pieces: readonly string[]): AsyncGenerator<string> {
  yield* pieces;
}

type Rewritten = { text: string; cited: readonly Passage[]; dropped: DroppedCitation[] };

async function rewrite(pieces: readonly string[], check: Check = async () => null): Promise<Rewritten> {
  const markers = createCitationMarkerRewriter(passages, check);
  const text = (await collect(markers.rewrite(inPieces(pieces)))).join('');
  return { text, ...markers.found() };
}

describe('citation markers in a reply', () => {
  it('are renumbered in the order of their first mention', async () => {
    expect(await rewrite(['Open till six [2]. Paid leave [1], till six [2].'])).deep.equal({
      ...{ text: 'Open till six [1]. Paid leave [2], till six [1].', cited: ['office', 'leave'], dropped: [] },
    });
  });

  it('lose each number whose passage is missing or fails the check, and are removed if no number is left', async () => {
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

  it('are checked one by one: the cited passage against the sentence before the marker, from which all markers are removed', async () => {
    const judged: string[] = [];
    const check: Check = async (passage, statement) => {
      judged.push(`${passage}: ${statement}`);
      return null;
    };
    await rewrite(['Leave is paid [1] and long. [2, 3] Hours vary.[1][2]\nNext\n\n[3] line'], check);
    expect(judged).deep.equal([
      'leave: Leave is paid',
      'office: Leave is paid and long.',
      'salary: Leave is paid and long.',
      'leave: Hours vary.',
      'office: Hours vary.',
      'salary: Next',
    ]);
    expect(sentenceBeforeCitationMarker('One. Dr. Who [1] came ')).equal('Dr. Who came');
    expect(sentenceBeforeCitationMarker('[1]\n')).equal('');
    expect(sentenceBeforeCitationMarker('One\r Two [1]')).equal('Two');
    judged.length = 0;
    await rewrite([`${'long '.repeat(400)}[1]`], check);
    expect(judged[0]?.length).equal('leave: '.length + 999);
  });

  it('are only brackets with one to eight numbers, and the removal of a marker never creates another', async () => {
    const text = 'See [link](x), [x], a[12], [1a], [123], [], [1.5] and [1, 2, 3, 4, 5, 6, 7, 8, 9].';
    expect(await rewrite([text])).deep.equal({ text, cited: [], dropped: [] });
    expect((await rewrite(['Paid[2, 9].'])).text).equal('Paid[1].');
    expect((await rewrite(['[[9]1] and [1 [9], 3]'])).text).equal('[[]1] and [1 [], 3]');
  });

  it('are removed from an earlier reply only if all their numbers are citations of that reply', () => {
    const reply = 'Paid [1], open [1, 2]. Not [3], [0, 1] or [2, 3].';
    expect(removeCitationMarkers(reply, 2)).equal('Paid, open. Not [3], [0, 1] or [2, 3].');
  });

  it('delay only streamed text that may become a marker', async () => {
    const markers = createCitationMarkerRewriter(passages, async () => null);
    const parts = await collect(markers.rewrite(inPieces('Paid| leave |[|2|]| [|x|] and [1|, '.split('|'))));
    expect(parts).deep.equal(['Paid', ' leave', ' [1]', ' [x', '] and', ' [1, ']);
  });
});

describe('citation markers in random replies', () => {
  const part = fc.constantFrom(
    ...['[', ']', '1', '2', '3', '12', ',', ' ', '. ', '\n', 'word', '[1]', ' [2]', '[3, 1]'],
    ...['1, 2, 3, 1, 2, 3, 1, ', '[x]', '😀'],
  );
  const parts = fc.array(part, { maxLength: 40 });
  /** Rejects some pairs of passage and statement, always the same. */
  const check: Check = async (passage, statement) =>
    (passage.length + statement.length) % 3 === 0 ? 'unsupported' : null;

  it('do not depend on how the stream is split', async () => {
    await fc.assert(
      fc.asyncProperty(parts, fc.array(fc.nat({ max: 120 })), async (text, cuts) => {
        const whole = text.join('');
        const ends = [...cuts.toSorted((a, b) => a - b), undefined];
        const pieces = ends.map((end, index) => whole.slice(ends[index - 1] ?? 0, end));
        const expected = await rewrite([whole], check);
        expect(await rewrite(pieces, check)).deep.equal(expected);
        expect(await rewrite(whole.split(''), check)).deep.equal(expected);
      }),
    );
  });

  it('refer to exactly the returned citations', async () => {
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
});

describe('the citations of a reply without markers', () => {
  it('link each statement to its best passage with a score of at least 0.6, each passage once', () => {
    const statements = splitReplyIntoStatements('Office hours vary. Sixteen weeks.\n \n- Fully paid.');
    expect(statements).deep.equal(['Office hours vary.', 'Sixteen weeks.', '- Fully paid.']);
    const similarity = (statement: string, passage: string) => {
      if (statement === 'Office hours vary.') return passage === 'office' ? 0.7 : 0.65;
      return passage === 'leave' ? 0.6 : 0.59;
    };
    expect(findSourcePassages(statements, ['leave', 'office'], similarity)).deep.equal(['office', 'leave']);
    expect(findSourcePassages(['Sixteen weeks.'], ['leave'], () => 0.59)).deep.equal([]);
    expect(findSourcePassages(['Sixteen weeks.'], [], () => 1)).deep.equal([]);
  });

  it('are scored by the cosine, or by words if the passage has most words of a statement', () => {
    const passage = new Set(['trend', 'chat', 'start', '100', 'averag']);
    for (const [cosine, statement, score] of [
      [0.4, 'trend chat start 100', 1],
      [0.4, 'trend chat start monday', 0.75],
      [0.4, 'trend chat start', 1],
      [0.4, 'trend chat end monday', 0.4],
      [0.2, 'chat start chat', 0.2],
    ] as const) {
      expect(scoreSentenceAttribution(cosine, statement.split(' '), passage), statement).equal(score);
    }
    expect(shareOfWordsInPassage(['fee', 'fee', 'loan'], new Set(['fee']))).equal(0.5);
    expect(shareOfWordsInPassage([], new Set(['fee']))).equal(0);
  });
});
