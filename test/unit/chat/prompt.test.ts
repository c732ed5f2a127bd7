import { expect } from 'chai';
import { createTokenCounter } from '#src/adapters/text/token-counter.ts';
import { buildPrompt, type PromptInput } from '#src/modules/chat/prompt.ts';

describe('buildPrompt', () => {
  const counter = createTokenCounter();
  const plain: PromptInput = {
    persona: 'You talk about loans.',
    steering: { note: null, afterHistory: null },
    passages: null,
    history: [],
    question: 'What is a loan?',
    nonce: 'abcdef0123456789',
  };
  const build = (changes: Partial<PromptInput>) => buildPrompt({ ...plain, ...changes }, counter);

  it('is the persona and the question when there is nothing else', () => {
    expect(build({})).deep.equal([
      { role: 'system', content: 'You talk about loans.' },
      { role: 'user', content: 'What is a loan?' },
    ]);
  });

  it('tells the conversation in its order', () => {
    const history = [
      { userContent: 'second', assistantReply: 'two', citations: [] },
      { userContent: 'first', assistantReply: 'one', citations: [] },
    ];
    const contents = build({ history }).map((message) => message.content);
    expect(contents).deep.equal(['You talk about loans.', 'first', 'one', 'second', 'two', 'What is a loan?']);
  });

  it('leaves the markers of earlier answers out, and nothing that only looks like them', () => {
    const history = [{ userContent: 'first', assistantReply: 'A fee [2, 1] of a[7] [1].', citations: [{}, {}] }];
    expect(build({ history }).at(2)?.content).equal('A fee of a[7].');
  });

  it('leaves out the oldest rounds when they are too long together, and never half a round', () => {
    const long = 'word '.repeat(1_400);
    const history = [
      { userContent: 'newest', assistantReply: long, citations: [] },
      { userContent: 'older', assistantReply: long, citations: [] },
      { userContent: 'oldest', assistantReply: long, citations: [] },
    ];
    const asked = build({ history }).filter((message) => message.role === 'user');
    expect(asked.map((message) => message.content)).deep.equal(['older', 'newest', 'What is a loan?']);
  });

  it('ends the persona with the note, and says the persona again behind the conversation', () => {
    const history = [{ userContent: 'first', assistantReply: 'one', citations: [] }];
    const steered = build({ history, steering: { note: 'Scope: loans.', afterHistory: 'You talk about loans.' } });
    expect(steered[0]?.content).equal('You talk about loans.\n\nScope: loans.');
    expect(steered.map((message) => message.role)).deep.equal(['system', 'user', 'assistant', 'system', 'user']);
  });

  it('numbers the passages and cuts one that is longer than all may be', () => {
    const passages = [
      { documentName: 'Terms', pageNumber: 3, content: 'The fee is 1 %.' },
      { documentName: 'Book', pageNumber: 1, content: 'word '.repeat(20_000) },
    ];
    const context = build({ passages }).at(-2)?.content ?? '';
    expect(context)
      .include('<<abcdef0123456789 1 | Terms | p. 3>>')
      .and.include('<<abcdef0123456789 2 | Book | p. 1>>');
    expect(context.length).below(40_000);
  });

  it('says that nothing was found, which is not the same as not looking', () => {
    expect(build({ passages: [] }).at(-2)?.content).include('found nothing');
  });
});
