import { expect } from 'chai';
import { detectRefusal, refusalKind } from '#src/domain/refusal.ts';

describe('refusal detection', () => {
  const policy = [
    "I'm sorry, but I can't help with that.",
    'I cannot provide this information.',
    'Unfortunately, I am not able to assist with illegal activities.',
    'Thanks for asking! That is outside my scope. I can help with loans.',
  ];
  for (const reply of policy) it(`hears "${reply}"`, () => expect(detectRefusal(reply)?.kind).to.equal('policy'));

  it('hears a lack of means', () => {
    expect(detectRefusal("I don't have access to your account.")?.kind).to.equal('capability');
  });

  it('takes not finding something as an answer', () => {
    expect(detectRefusal('I cannot find this in the documents.')).to.equal(null);
  });

  it('hears no refusal in an answer, nor in its later sentences', () => {
    expect(detectRefusal('The loan runs for two years.')).to.equal(null);
    expect(detectRefusal('I am sorry to hear that. Here is what to do. Call us. Then I cannot stop you.')).to.equal(
      null,
    );
  });

  it('is of scope when the user was off topic', () => {
    expect(refusalKind({ kind: 'policy', score: 1 }, 'off')).to.equal('scope');
    expect(refusalKind({ kind: 'policy', score: 1 }, 'on')).to.equal('policy');
  });
});
