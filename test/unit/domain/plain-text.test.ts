import { expect } from 'chai';
import { isBlank } from '#src/domain/text/plain-text.ts';

describe('isBlank', () => {
  it('is true for spaces and invisible characters', () => {
    for (const text of ['', ' \t\u00a0\u3000', '\u200b\u200d\ufeff', '\u3164', '\u2800', '\u{e0041}']) {
      expect(isBlank(text), JSON.stringify(text)).equal(true);
    }
  });

  it('is false for any visible text', () => {
    for (const text of ['a', ' 0 ', '\u200bа', '李', '👩‍🚀', '.']) expect(isBlank(text), text).equal(false);
  });
});
