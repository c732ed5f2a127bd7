import { expect } from 'chai';
import { z } from 'zod';
import { AppError } from '#src/errors.ts';
import { integerField, uuidField } from '#src/http/request/fields.ts';
import { validateInput } from '#src/http/request/validation.ts';
import { toProblem } from '#src/http/response/problem.ts';

describe('field errors', () => {
  const schema = z.strictObject({
    name: z.string().min(1).max(5),
    limit: integerField({ min: 1, max: 100 }),
    id: uuidField,
    mode: z.enum(['vector', 'hybrid']),
    words: z.record(z.string(), z.int()),
    tags: z.array(z.string()).max(1),
    flag: z.boolean(),
  });
  const right = { name: 'fox', limit: '10', id: crypto.randomUUID(), mode: 'vector', words: {}, tags: [], flag: true };

  const cases: [wrong: object, detail: string][] = [
    [{ name: undefined }, 'name: is required'],
    [{ name: 5 }, 'name: must be a text'],
    [{ name: '' }, 'name: must have at least 1 characters'],
    [{ name: 'foxes!' }, 'name: must have at most 5 characters'],
    [{ limit: '1000' }, 'limit: must be at most 100'],
    [{ limit: '0' }, 'limit: must be at least 1'],
    [{ limit: 'ten' }, 'limit: must be a whole number'],
    [{ limit: 1.5 }, 'limit: must be a whole number'],
    [{ id: '42' }, 'id: must be an id (UUID)'],
    [{ mode: 'fuzzy' }, 'mode: must be one of vector, hybrid'],
    [{ words: [] }, 'words: must be an object'],
    [{ words: { fox: 1.5 } }, 'words.fox: must be a whole number'],
    [{ tags: ['a', 'b'] }, 'tags: must have at most 1 items'],
    [{ flag: 'perhaps' }, 'flag: must be true or false'],
    [{ more: 1 }, 'more: This field is not known'],
  ];
  for (const [wrong, detail] of cases) {
    it(`have the message "${detail}"`, () => {
      expect(() => validateInput(schema, { ...right, ...wrong })).throw(AppError, detail);
    });
  }

  /** Returns the problem response of the client. */
  function problemOf(body: object) {
    try {
      validateInput(schema, body);
    } catch (error) {
      if (error instanceof AppError) return toProblem(error, { path: '/', requestId: 'request' });
      throw error;
    }
    throw new Error('The body is valid.');
  }

  it('list at most a hundred fields, so that a response is not larger than its request', () => {
    const unknown = Object.fromEntries(Array.from({ length: 10_000 }, (_, index) => [`field${index}`, 0]));
    const { errors, detail } = problemOf({ ...right, ...unknown });
    expect(errors).length(100);
    expect(errors?.[0]).deep.equal({ path: 'field0', message: 'This field is not known', code: 'unknown_field' });
    expect(detail).equal('field0: This field is not known');
    const wrong = Object.fromEntries(Object.keys(unknown).map((name) => [name, 1.5]));
    expect(problemOf({ ...right, words: wrong }).errors).length(100);
  });

  it('shorten field names to 200 characters', () => {
    const { errors, detail } = problemOf({ ...right, ['x'.repeat(900_000)]: 0 });
    expect(errors?.[0]?.path).equal(`${'x'.repeat(199)}…`);
    expect(detail).equal(`${'x'.repeat(199)}…: This field is not known`);
  });
});
