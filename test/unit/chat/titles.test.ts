import { expect } from 'chai';
import { proposeChatTitle } from '#src/modules/alignment/alignment.service.ts';
import { titleFromMessage } from '#src/modules/chat/rounds.ts';

describe('the title of a chat', () => {
  it('starts as the first 60 characters of the message, on one line', () => {
    expect(titleFromMessage('  How do I\n repay\ta loan? ')).equal('How do I repay a loan?');
    expect([...titleFromMessage('🏦'.repeat(80))]).length(60);
  });

  it('contains no control or invisible characters, and is never blank', () => {
    expect(titleFromMessage('\u202eevil \x1b[31mtitle')).equal('evil title');
    expect(titleFromMessage('\u200fA\u061c loan\u{e0041} 👩‍💻')).equal('A loan 👩‍💻');
    expect(titleFromMessage('\u200b\x07')).equal('Chat');
  });

  const titleFrom = (text: string): Promise<string | null> => {
    const complete = async () => ({
      text,
      model: 'm',
      usage: { inputTokens: 0, cachedInputTokens: 0, completionTokens: 0 },
    });
    return proposeChatTitle({ complete }, { model: 'm', message: 'How?', signal: new AbortController().signal });
  };

  for (const [proposed, title] of [
    ['Repaying a loan early', 'Repaying a loan early'],
    ['"Repaying a loan early."', 'Repaying a loan early'],
    ['**Title:** Repaying a loan early\n\nI hope this helps!', 'Repaying a loan early'],
    ['# Repaying a loan', 'Repaying a loan'],
    ['“Zinsen”', 'Zinsen'],
    ['[Repay now](https://evil.example/?d=key)', 'Repay now'],
    ['![Repay](https://evil.example/k) <b>early</b> at https://evil.example', 'Repay b early /b at'],
    ['Repay\u202e\u200b a loan! <|im_start|>', 'Repay a loan! im_start'],
    ['https://evil.example', null],
    ['...', null],
    ['', null],
  ] as const) {
    it(`becomes ${title} when the model proposes ${JSON.stringify(proposed)}`, async () => {
      expect(await titleFrom(proposed)).equal(title);
    });
  }
});
