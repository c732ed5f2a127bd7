import type { IncomingMessage } from 'node:http';
import { PassThrough } from 'node:stream';
import { expect } from 'chai';
import { z } from 'zod';
import { AppError, appError, listErrorCatalogue } from '#src/errors.ts';
import { omitSecretFields, readJsonBody } from '#src/http/request/body.ts';
import { integerField, uuidField } from '#src/http/request/fields.ts';
import { requireInputStorableInPostgres, validateInput } from '#src/http/request/validation.ts';
import { problemHeaders, problemSchema, toAppError, toProblem } from '#src/http/response/problem.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';

describe('fields of requests', () => {
  it('accept integers only as decimal text within the range', () => {
    const number = integerField({ min: 0, max: 100 });
    const query = z.strictObject({ limit: number.default(20), size: number.optional() });
    expect(query.parse({ limit: '5', size: '0' })).deep.equal({ limit: 5, size: 0 });
    expect(query.parse({})).deep.equal({ limit: 20 });
    for (const text of ['', ' 5 ', '0x10', '1e1', '5.0', '-1', '101', 'x', '9'.repeat(400)]) {
      expect(query.safeParse({ limit: text }).success, text.slice(0, 9)).equal(false);
    }
  });
});

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

  /** Returns the problem response of the client. */
  function problemOf(wrong: object) {
    try {
      validateInput(schema, { ...right, ...wrong });
    } catch (error) {
      if (error instanceof AppError) return toProblem(error, { path: '/', requestId: 'request' });
      throw error;
    }
    throw new Error('The body is valid.');
  }

  it('say what is wrong with a field and what is allowed', () => {
    const cases: [wrong: object, detail: string][] = [
      [{ name: undefined }, 'name: is required'],
      [{ name: 5 }, 'name: must be a text'],
      [{ name: '' }, 'name: must have at least 1 characters'],
      [{ name: 'foxes!' }, 'name: must have at most 5 characters'],
      [{ limit: '1000' }, 'limit: must be at most 100'],
      [{ limit: '0' }, 'limit: must be at least 1'],
      [{ limit: 1.5 }, 'limit: must be a whole number'],
      [{ id: '42' }, 'id: must be an id (UUID)'],
      [{ mode: 'fuzzy' }, 'mode: must be one of vector, hybrid'],
      [{ words: [] }, 'words: must be an object'],
      [{ words: { fox: 1.5 } }, 'words.fox: must be a whole number'],
      [{ tags: ['a', 'b'] }, 'tags: must have at most 1 items'],
      [{ flag: 'perhaps' }, 'flag: must be true or false'],
      [{ more: 1 }, 'more: This field is not known'],
      [{ ['x'.repeat(900_000)]: 0 }, `${'x'.repeat(199)}…: This field is not known`],
    ];
    for (const [wrong, detail] of cases) expect(problemOf(wrong).detail).equal(detail);
  });

  it('list at most a hundred fields, so that a response is not larger than its request', () => {
    const names = Array.from({ length: 10_000 }, (_, index) => `field${index}`);
    const { errors } = problemOf(Object.fromEntries(names.map((name) => [name, 0])));
    expect(errors).length(100);
    expect(errors?.[0]).deep.equal({ path: 'field0', message: 'This field is not known', code: 'unknown_field' });
    expect(problemOf({ words: Object.fromEntries(names.map((name) => [name, 1.5])) }).errors).length(100);
  });
});

describe('problem responses', () => {
  it('match their schema for every error code', () => {
    for (const { code, status } of listErrorCatalogue()) {
      const problem = problemSchema.parse(toProblem(appError(code), { path: '/documents/1', requestId: 'r-1' }));
      const request = { instance: '/documents/1', request_id: 'r-1' };
      expect(problem).include({ type: `/errors/${code}`, code, status, ...request });
    }
  });

  it('have Retry-After when the database is unreachable', () => {
    const error = toAppError(new Error('connect ECONNREFUSED'), () => true);
    expect(error.code).equal('service_unavailable');
    expect(problemHeaders(error, false)).property('Retry-After');
  });
});

describe('a JSON body', () => {
  /** Reads a body that arrives in two pieces. */
  function read(body: string): Promise<unknown> {
    const stream = new PassThrough();
    const middle = Math.floor(body.length / 2);
    stream.write(body.slice(0, middle));
    stream.end(body.slice(middle));
    const request = { complete: true, headers: { 'content-type': 'application/json' } };
    return readJsonBody(Object.assign(stream, request) as unknown as IncomingMessage);
  }

  it('is limited to ten thousand fields and elements, not by the length of its strings', async () => {
    const numbers = (count: number) => JSON.stringify(Array.from({ length: count }, (_, index) => index));
    expect(await read(numbers(10_000))).length(10_000);
    const fields = `{${Array.from({ length: 10_001 }, (_, index) => `"${index}":1`).join()}}`;
    const empty = `[${'[],'.repeat(5_001)}1]`;
    for (const body of [numbers(10_001), fields, empty]) {
      expect(await appErrorCode(read(body))).equal('payload_too_large');
    }
    const text = '[{,"\\'.repeat(30_000);
    expect(await read(JSON.stringify({ text }))).deep.equal({ text });
  });

  it('is rejected if Postgres cannot store it, or if it is nested deeper than 64 levels', () => {
    const refusalOf = (value: unknown) => {
      try {
        return requireInputStorableInPostgres(value);
      } catch (error) {
        if (error instanceof AppError) return `${error.code} ${error.errors?.[0]?.path}`;
        throw error;
      }
    };
    const nested = (levels: number) => JSON.parse(`${'['.repeat(levels)}${']'.repeat(levels)}`);
    for (const value of [{ name: 'Ada', tags: ['ß', '😀'], nested: { deep: [null, 1, true] } }, nested(65)]) {
      expect(refusalOf(value)).equal(value);
    }
    const refusals: [value: unknown, refusal: string][] = [
      [{ a: { b: ['x', 'y\0'] }, c: 1 }, 'validation_failed a.b.1'],
      [{ a: 'x', b: '\ud800' }, 'validation_failed b'],
      [{ a: { 'k\0': 1 } }, 'validation_failed a'],
      [nested(66), 'malformed_request undefined'],
      [nested(500_000), 'malformed_request undefined'],
    ];
    for (const [value, refusal] of refusals) expect(refusalOf(value)).equal(refusal);
  });
});

describe('secret fields of a request body', () => {
  const secret = () => z.string().meta({ writeOnly: true });

  it('are removed at every depth where the schema marks a field as secret, and all other fields stay', () => {
    const keys = z.strictObject({ id: z.string(), secret: secret().optional() }).transform(({ id }) => id);
    const schema = z.strictObject({
      name: z.string().transform((name) => name.trim()),
      password: secret().pipe(z.string().min(1)),
      token: z.string().nullable().meta({ writeOnly: true }).optional(),
      keys: keys.optional(),
      list: z.array(z.union([z.strictObject({ pin: secret() }), z.strictObject({ word: z.string() })])),
    });
    const unknown = { password: 'stays, and is refused by the schema' };
    const secrets = { password: 'p', token: 't', keys: { id: 'k', secret: 's' }, list: [{ pin: '1' }, { word: 'w' }] };
    const kept = { name: ' a ', keys: { id: 'k' }, list: [{}, { word: 'w' }], unknown };
    expect(omitSecretFields(schema, { name: ' a ', ...secrets, unknown })).deep.equal(kept);
    for (const value of ['text', null]) expect(omitSecretFields(schema, value)).equal(value);
  });
});
