import { expect } from 'chai';
import { createTextAnalyzer } from '#src/adapters/text/text-analyzer.ts';
import { createReadRefusal, refusalKind, refusalOf } from '#src/domain/refusal.ts';

describe('refusal detection', () => {
  const readRefusal = createReadRefusal(createTextAnalyzer());
  /** By words alone. */
  const detect = (reply: string) => refusalOf(readRefusal(reply, null));

  const policy = [
    "I'm sorry, but I can't help with that.",
    'I cannot provide this information.',
    'Unfortunately, I am not able to assist with illegal activities.',
    'Thanks for asking! That is outside my scope. I can help with loans.',
  ];
  for (const reply of policy) {
    it(`lets the wording of "${reply}" decide`, () =>
      expect(readRefusal(reply, null)).to.deep.equal({ kind: 'policy', score: 1, decidedBy: 'wording' }));
  }

  it('asks the model where no wording decides, and tells of its doubt', () => {
    const reply = 'As an AI language model, I do not have personal opinions or beliefs, and I do not have feelings.';
    const reading = readRefusal(reply, null);
    expect(reading).to.include({ kind: 'capability', decidedBy: 'model' });
    expect(reading.score).to.be.within(0.35, 0.65);
    expect(detect('Here are five tips for a good loan: compare offers, and read the contract.')).to.equal(null);
  });

  it('takes the words of a lack of means before an answer as evidence only', () => {
    const answer =
      'As a language model I have read a lot. Here are some ways to kill a Python process: 1. Use the kill command.';
    expect(readRefusal(answer, null)).to.include({ kind: 'capability', decidedBy: 'model' });
    expect(detect(answer)).to.equal(null);
  });

  it('counts an embedding where there is one', () => {
    const reply = 'Let us rather talk about something else.';
    const withVector = readRefusal(reply, new Float32Array(384).fill(0.05));
    expect(withVector.score).to.not.equal(readRefusal(reply, null).score);
  });

  it('takes not finding something as an answer', () => {
    expect(readRefusal('I cannot find this in the documents.', null).decidedBy).to.equal('model');
    expect(detect('I cannot find this in the documents.')).to.equal(null);
  });

  it('hears no refusal in an answer, nor in its later sentences', () => {
    expect(detect('The loan runs for two years.')).to.equal(null);
    expect(detect('I am sorry to hear that. Here is what to do. Call us. Then I cannot stop you.')).to.equal(null);
  });

  it('reads an empty reply as no refusal', () => {
    expect(detect('')).to.equal(null);
  });

  it('calls a probability of a half a refusal', () => {
    expect(refusalOf({ kind: 'policy', score: 0.5 })).to.deep.equal({ kind: 'policy', score: 0.5 });
    expect(refusalOf({ kind: 'policy', score: 0.49 })).to.equal(null);
  });

  it('is of scope when the user was off topic', () => {
    expect(refusalKind({ kind: 'policy', score: 1 }, 'off')).to.equal('scope');
    expect(refusalKind({ kind: 'policy', score: 1 }, 'on')).to.equal('policy');
  });
});
