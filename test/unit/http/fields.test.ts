import { expect } from 'chai';
import { z } from 'zod';
import {
  booleanTextField,
  emailField,
  integerField,
  nameField,
  newPasswordField,
  oneLineField,
  uuidField,
} from '#src/http/request/fields.ts';

describe('fields of requests', () => {
  it('accept ids in any case and convert them to lower case', () => {
    const id = '019a0000-abcd-7000-8000-00000000000f';
    expect(uuidField.parse(id.toUpperCase())).to.equal(id);
    expect(uuidField.safeParse('42').success).to.equal(false);
  });

  it('accept emails in any case, but not letters such as the Kelvin sign', () => {
    expect(emailField.parse(' Kim@Example.COM ')).to.equal('kim@example.com');
    const kelvinSign = '\u212a';
    expect(emailField.safeParse(`${kelvinSign}im@example.com`).success).to.equal(false);
  });

  const number = integerField({ min: 0, max: 100 });
  const query = z.strictObject({ limit: number.default(20), size: number.optional() });

  it('parse integers from text', () => {
    expect(query.parse({ limit: '5', size: '0' })).to.deep.equal({ limit: 5, size: 0 });
    expect(query.parse({})).to.deep.equal({ limit: 20 });
  });

  for (const text of ['', ' 5 ', '0x10', '1e1', '5.0', '-1', '101', 'x', '9'.repeat(400)]) {
    it(`reject ${JSON.stringify(text.slice(0, 9))} as an integer in the range`, () => {
      expect(query.safeParse({ limit: text }).success).to.equal(false);
    });
  }
});

describe('patterns of fields in the OpenAPI document', () => {
  const patternOf = (field: z.ZodType) => {
    const { pattern = '' } = z.toJSONSchema(field, { io: 'input', unrepresentable: 'any' });
    return new RegExp(pattern, 'u');
  };
  const everyCharacter = Array.from({ length: 0x30000 }, (_, code) => String.fromCodePoint(code));

  it('accept the same characters in one-line texts as the server', () => {
    const field = oneLineField(10);
    const pattern = patternOf(field);
    const differ = everyCharacter.filter((text) => pattern.test(text) !== field.safeParse(text).success);
    expect(differ).to.deep.equal([]);
  });

  it('accept visible names and reject blank and invisible ones, as the server does', () => {
    const pattern = patternOf(nameField);
    for (const name of ['a', ' a ', 'é 1', '日本']) {
      expect([pattern.test(name), nameField.safeParse(name).success], name).to.deep.equal([true, true]);
    }
    for (const name of ['', ' ', '\u3000', 'a\nb', 'a\u202eb']) {
      expect([pattern.test(name), nameField.safeParse(name).success], name).to.deep.equal([false, false]);
    }
  });

  it('accept the same passwords as the server', () => {
    const pattern = patternOf(newPasswordField);
    for (const password of ['Correct-horse-7', 'ΑΒΓδεζ ٣٣٣\n', 'Aa1 aaaaaa']) {
      expect([pattern.test(password), newPasswordField.safeParse(password).success]).to.deep.equal([true, true]);
    }
    for (const password of ['correct-horse-7', 'CORRECT-HORSE-7', 'Correct-horses', 'Correcthorse77']) {
      expect([pattern.test(password), newPasswordField.safeParse(password).success]).to.deep.equal([false, false]);
    }
  });

  it('list the accepted words of a boolean', () => {
    const { enum: words = [] } = z.toJSONSchema(booleanTextField, { io: 'input' });
    expect(words).to.include.members(['true', 'false', '1', '0']);
    for (const word of words) expect(booleanTextField.safeParse(word).success, String(word)).to.equal(true);
    expect(booleanTextField.safeParse('maybe').success).to.equal(false);
  });
});
