import { expect } from 'chai';
import { findPasswordProblems } from '#src/domain/access/credentials.ts';

describe('findPasswordProblems', () => {
  const accepted = ['Abcdefgh1!', 'Abcdefg 1x', 'Ünïcode-Pässw0rd', `Aa1!${'x'.repeat(124)}`, 'Aa1🔑🔑🔑🔑🔑🔑🔑'];
  for (const password of accepted) {
    it(`accepts ${password.slice(0, 20)}`, () => expect(findPasswordProblems(password)).to.deep.equal([]));
  }

  const refused: [string, string[]][] = [
    ['Abcdefg1!', ['length']],
    [`Aa1!${'x'.repeat(125)}`, ['length']],
    ['abcdefgh1!', ['uppercase']],
    ['ABCDEFGH1!', ['lowercase']],
    ['Abcdefghi!', ['digit']],
    ['Abcdefghi1', ['special']],
    ['', ['length', 'uppercase', 'lowercase', 'digit', 'special']],
  ];
  for (const [password, faults] of refused) {
    it(`reports for "${password.slice(0, 20)}": ${faults.join(', ')}`, () => {
      expect(findPasswordProblems(password)).to.deep.equal(faults);
    });
  }
});
