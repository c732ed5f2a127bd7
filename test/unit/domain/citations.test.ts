import { expect } from 'chai';
import {
  findSourcePassages,
  scoreSentenceAttribution,
  shareOfWordsInPassage,
  splitReplyIntoStatements,
} from '#src/domain/chat/citation-markers.ts';

describe('attribution of a reply without citations', () => {
  const passages = ['leave', 'office'];

  it('gives each statement its best passage of at least 0.6, each passage once', () => {
    const similarity = (statement: string, passage: string) => {
      if (statement === 'Office hours vary.') return passage === 'office' ? 0.7 : 0.65;
      return passage === 'leave' ? 0.6 : 0.59;
    };
    const statements = splitReplyIntoStatements('Office hours vary. Sixteen weeks.\n- Fully paid.');
    expect(statements).deep.equal(['Office hours vary.', 'Sixteen weeks.', '- Fully paid.']);
    expect(findSourcePassages(statements, passages, similarity)).deep.equal(['office', 'leave']);
  });

  it('gives no passages if none is similar', () => {
    expect(findSourcePassages(['Sixteen weeks.'], passages, () => 0.59)).deep.equal([]);
    expect(findSourcePassages(['Sixteen weeks.'], [], () => 1)).deep.equal([]);
  });
});

describe('the attribution score', () => {
  const passage = new Set(['trend', 'chat', 'start', '100', 'averag']);

  it('is the cosine, unless the passage has most of the words of the statement', () => {
    expect(scoreSentenceAttribution(0.4, ['trend', 'chat', 'start', '100'], passage)).equal(1);
    expect(scoreSentenceAttribution(0.4, ['trend', 'chat', 'start', 'monday'], passage)).equal(0.75);
    expect(scoreSentenceAttribution(0.4, ['trend', 'chat', 'end', 'monday'], passage)).equal(0.4);
  });

  it('ignores shared words of very short statements', () => {
    expect(scoreSentenceAttribution(0.2, ['chat', 'start', 'chat'], passage)).equal(0.2);
  });
});

describe('shared words', () => {
  it('are counted once each', () => {
    expect(shareOfWordsInPassage(['fee', 'fee', 'loan'], new Set(['fee']))).equal(0.5);
    expect(shareOfWordsInPassage([], new Set(['fee']))).equal(0);
  });
});
