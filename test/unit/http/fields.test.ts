import { expect } from 'chai';
import { z } from 'zod';
import {
  emailField,
  idField,
  integerField,
  nameField,
  newPasswordField,
  oneLineField,
  textSwitchField,
} from '#src/http/request/fields.ts';

describe('fields of requests', () => {
  it('takes ids in any case and keeps one spelling of them', () => {
    const id = '019a0000-abcd-7000-8000-00000000000f';
    expect(idField.parse(id.toUpperCase())).to.equal(id);
    expect(idField.safeParse('42').success).to.equal(false);
  });

  it('takes emails in any case, but no other letter that has the same small one', () => {
    expect(emailField.parse(' Kim@Example.COM ')).to.equal('kim@example.com');
    const kelvinSign = '\u212a';
    expect(emailField.safeParse(`${kelvinSign}im@example.com`).success).to.equal(false);
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

describe('what the OpenAPI document says of a field', () => {
  const patternOf = (field: z.ZodType) => {
    const { pattern = '' } = z.toJSONSchema(field, { io: 'input', unrepresentable: 'any' });
    return new RegExp(pattern, 'u');
  };
  const everyCharacter = Array.from({ length: 0x30000 }, (_, code) => String.fromCodePoint(code));

  it('holds of each character of one line', () => {
    const field = oneLineField(10);
    const pattern = patternOf(field);
    const differ = everyCharacter.filter((text) => pattern.test(text) !== field.safeParse(text).success);
    expect(differ).to.deep.equal([]);
  });

  it('holds of names, but for those that nobody sees', () => {
    const pattern = patternOf(nameField);
    for (const name of ['a', ' a ', 'é 1', '日本']) {
      expect([pattern.test(name), nameField.safeParse(name).success], name).to.deep.equal([true, true]);
    }
    for (const name of ['', ' ', '\u3000', 'a\nb', 'a\u202eb']) {
      expect([pattern.test(name), nameField.safeParse(name).success], name).to.deep.equal([false, false]);
    }
  });

  it('holds of passwords', () => {
    const pattern = patternOf(newPasswordField);
    for (const password of ['Correct-horse-7', 'ΑΒΓδεζ ٣٣٣\n', 'Aa1 aaaaaa']) {
      expect([pattern.test(password), newPasswordField.safeParse(password).success]).to.deep.equal([true, true]);
    }
    for (const password of ['correct-horse-7', 'CORRECT-HORSE-7', 'Correct-horses', 'Correcthorse77']) {
      expect([pattern.test(password), newPasswordField.safeParse(password).success]).to.deep.equal([false, false]);
    }
  });

  it('lists the words of a switch', () => {
    const { enum: words = [] } = z.toJSONSchema(textSwitchField, { io: 'input' });
    expect(words).to.include.members(['true', 'false', '1', '0']);
    for (const word of words) expect(textSwitchField.safeParse(word).success, String(word)).to.equal(true);
    expect(textSwitchField.safeParse('maybe').success).to.equal(false);
  });
});
