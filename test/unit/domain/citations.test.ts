import { expect } from 'chai';
import { attribute, sharedWords, statementsOf } from '#src/domain/citations.ts';

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

describe('shared words', () => {
  it('are the share of the distinct ones', () => {
    expect(sharedWords(['fee', 'fee', 'loan'], new Set(['fee']))).equal(0.5);
    expect(sharedWords([], new Set(['fee']))).equal(0);
  });
});
