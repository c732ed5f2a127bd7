import { expect } from 'chai';
import { selectChunksForPrompt } from '#src/domain/chat/context-window.ts';

const ids = 'abcdefghijklmnop'.split('');

describe('selecting chunks for a prompt', () => {
  const chunk = (id: string, tokenCount: number) => ({ id, tokenCount });

  it('takes at most eight', () => {
    expect(selectChunksForPrompt(ids.map((id) => chunk(id, 10))).length).to.equal(8);
  });

  it('skips a chunk that does not fit and keeps the order', () => {
    const selected = selectChunksForPrompt([chunk('a', 2000), chunk('b', 1500), chunk('c', 1000)]);
    expect(selected.map((each) => each.id)).to.deep.equal(['a', 'c']);
  });

  it('keeps the best chunk even if it exceeds the budget alone', () => {
    expect(selectChunksForPrompt([chunk('a', 5000), chunk('b', 10)]).map((each) => each.id)).to.deep.equal(['a']);
  });
});
