import { expect } from 'chai';
import { proposeChatTitle } from '#src/modules/alignment/alignment.service.ts';
import { titleFromMessage } from '#src/modules/chat/rounds.ts';

describe('the title of a chat', () => {
  it('is at first the beginning of the message: 60 visible characters on one line, or `Chat` if there are none', () => {
    for (const [message, title] of [
      ['  How do I\n repay\ta loan? ', 'How do I repay a loan?'],
      ['🏦'.repeat(80), '🏦'.repeat(60)],
      ['\u202eevil \x1b[31mtitle', 'evil title'],
      ['\u200fA\u061c loan\u{e0041} 👩‍💻', 'A loan 👩‍💻'],
      ['\u200b\x07', 'Chat'],
    ] as const) {
      expect(titleFromMessage(message)).equal(title);
    }
  });

  it("is the model's proposal without markup, links or invisible characters, or null if nothing is left", async () => {
    const usage = { inputTokens: 0, cachedInputTokens: 0, completionTokens: 0 };
    const { signal } = new AbortController();
    for (const [text, title] of [
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
      const complete = async () => ({ text, model: 'm', usage });
      expect(await proposeChatTitle({ complete }, { model: 'm', message: 'How?', signal }), text).equal(title);
    }
  });
});
