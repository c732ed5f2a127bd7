import { expect } from 'chai';
import { attribute, attributionScore, sharedWords, statementsOf } from '#src/domain/chat/citations.ts';

describe('the sources of a reply that names none', () => {
  const passages = ['leave', 'office'];

  it('are those of similarity 0.6, the best of each statement, each once', () => {
    const similarity = (statement: string, passage: string) => {
      if (statement === 'Office hours vary.') return passage === 'office' ? 0.7 : 0.65;
      return passage === 'leave' ? 0.6 : 0.59;
    };
    const statements = statementsOf('Office hours vary. Sixteen weeks.\n- Fully paid.');
    expect(statements).deep.equal(['Office hours vary.', 'Sixteen weeks.', '- Fully paid.']);
    expect(attribute(statements, passages, similarity)).deep.equal(['office', 'leave']);
  });

  it('are none where nothing is similar', () => {
    expect(attribute(['Sixteen weeks.'], passages, () => 0.59)).deep.equal([]);
    expect(attribute(['Sixteen weeks.'], [], () => 1)).deep.equal([]);
  });
});

describe('the score of a source', () => {
  const passage = new Set(['trend', 'chat', 'start', '100', 'averag']);

  it('is the cosine, unless the passage has most of the words of the statement', () => {
    expect(attributionScore(0.4, ['trend', 'chat', 'start', '100'], passage)).equal(1);
    expect(attributionScore(0.4, ['trend', 'chat', 'start', 'monday'], passage)).equal(0.75);
    expect(attributionScore(0.4, ['trend', 'chat', 'end', 'monday'], passage)).equal(0.4);
  });

  it('does not lean on few words', () => {
    expect(attributionScore(0.2, ['chat', 'start', 'chat'], passage)).equal(0.2);
  });
});

describe('shared words', () => {
  it('are the share of the distinct ones', () => {
    expect(sharedWords(['fee', 'fee', 'loan'], new Set(['fee']))).equal(0.5);
    expect(sharedWords([], new Set(['fee']))).equal(0);
  });
});
