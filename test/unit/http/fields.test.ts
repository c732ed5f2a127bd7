import { expect } from 'chai';
import { z } from 'zod';
import { idField, integerField } from '#src/http/fields.ts';

describe('fields of requests', () => {
  it('takes ids in any case and keeps one spelling of them', () => {
    const id = '019a0000-abcd-7000-8000-00000000000f';
    expect(idField.parse(id.toUpperCase())).to.equal(id);
    expect(idField.safeParse('42').success).to.equal(false);
  });

  const number = integerField({ min: 0, max: 100 });
  const query = z.strictObject({ limit: number.default(20), size: number.optional() });

  it('reads whole numbers from text', () => {
    expect(query.parse({ limit: '5', size: '0' })).to.deep.equal({ limit: 5, size: 0 });
    expect(query.parse({})).to.deep.equal({ limit: 20 });
  });

  for (const text of ['', ' 5 ', '0x10', '1e1', '5.0', '-1', '101', 'x', '9'.repeat(400)]) {
    it(`does not take ${JSON.stringify(text.slice(0, 9))} for a number within its range`, () => {
      expect(query.safeParse({ limit: text }).success).to.equal(false);
    });
  }
});
