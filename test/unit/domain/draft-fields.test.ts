import { expect } from 'chai';
import {
  anchorWordProblems,
  blankDraftFields,
  draftNameOrDefault,
  mergeDraftFields,
  normalizeAnchorWords,
  publicationProblems,
} from '#src/domain/agents/drafts.ts';

describe('the fields of a version', () => {
  const parent = { ...blankDraftFields, agentPrompt: 'Answer briefly.', color: '#102030', tags: ['law'] };

  it('inherit fields that were not sent', () => {
    expect(mergeDraftFields(parent, { agentName: 'Clerk' })).to.deep.equal({ ...parent, agentName: 'Clerk' });
  });

  it('are overwritten by fields that were sent empty', () => {
    const child = mergeDraftFields(parent, { agentPrompt: '', color: null, tags: [] });
    expect(child).to.deep.equal(blankDraftFields);
  });

  it('give the draft its name, or Untitled Draft', () => {
    expect([draftNameOrDefault('Clerk'), draftNameOrDefault(' ')]).to.deep.equal(['Clerk', 'Untitled Draft']);
  });
});

describe('anchor words', () => {
  const problemsOf = (words: Record<string, number>) => anchorWordProblems(words).map(({ message }) => message);

  it('may be phrases of three words with weights from 1 to 10', () => {
    expect(problemsOf({ invoice: 1, 'value added tax': 10 })).to.deep.equal([]);
  });

  it('are rejected if blank, too long, duplicate or of an invalid weight', () => {
    expect(problemsOf({ ' ': 1 })).to.deep.equal(['must not be blank']);
    expect(problemsOf({ 'a b c d': 1 })).to.deep.equal(['must have at most 3 words']);
    expect(problemsOf({ ['x'.repeat(101)]: 1 })).to.deep.equal(['must have at most 100 characters']);
    expect(problemsOf({ tax: 1, ' Tax': 2 })).to.deep.equal(['repeats another anchor word']);
    for (const weight of [0, 11, 1.5, Number.NaN]) expect(problemsOf({ tax: weight })).to.have.length(1);
  });

  it('are stored in one spelling', () => {
    expect(normalizeAnchorWords({ '  value\tadded  tax ': 3 })).to.deep.equal({ 'value added tax': 3 });
  });
});

describe('readiness to publish', () => {
  type Fields = Parameters<typeof publicationProblems>[0];
  const ready: Fields = { agentPrompt: 'Answer briefly.', anchorWords: { tax: 5 }, chatModel: null };
  const missing = (fields: Partial<Fields>) =>
    publicationProblems({ ...ready, ...fields }, ['offered']).map(({ path }) => path);

  it('needs a prompt and an anchor word', () => {
    expect(missing({})).to.deep.equal([]);
    expect(missing({ agentPrompt: ' \n', anchorWords: {} })).to.deep.equal(['agent_prompt', 'anchor_words']);
  });

  it('takes an offered model or none', () => {
    expect(missing({ chatModel: 'offered' })).to.deep.equal([]);
    expect(missing({ chatModel: 'gone' })).to.deep.equal(['chat_model']);
  });
});
