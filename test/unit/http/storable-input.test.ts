import { expect } from 'chai';
import { AppError } from '#src/errors.ts';
import { requireInputStorableInPostgres } from '#src/http/request/validation.ts';

function refusalOf(value: unknown): { code: string; path: string | undefined } {
  try {
    requireInputStorableInPostgres(value);
  } catch (error) {
    if (error instanceof AppError) return { code: error.code, path: error.errors?.[0]?.path };
    throw error;
  }
  throw new Error('The value is sound.');
}

describe('requireInputStorableInPostgres', () => {
  it('returns a valid value', () => {
    const value = { name: 'Ada', tags: ['a', 'ß', '😀'], nested: { deep: [null, 1, true] } };
    expect(requireInputStorableInPostgres(value)).equal(value);
  });

  it('rejects text that Postgres cannot store, and names its field', () => {
    expect(refusalOf({ a: { b: ['x', 'y\0'] }, c: 1 })).deep.equal({ code: 'validation_failed', path: 'a.b.1' });
    expect(refusalOf({ a: 'x', b: '\ud800' })).deep.equal({ code: 'validation_failed', path: 'b' });
    expect(refusalOf({ a: { 'k\0': 1 } })).deep.equal({ code: 'validation_failed', path: 'a' });
  });

  it('rejects a body nested deeper than 64 levels without a stack overflow', () => {
    const nested = (levels: number) => JSON.parse(`${'['.repeat(levels)}${']'.repeat(levels)}`);
    expect(() => requireInputStorableInPostgres(nested(65))).not.throw();
    expect(refusalOf(nested(66)).code).equal('malformed_request');
    expect(refusalOf(nested(500_000)).code).equal('malformed_request');
  });
});
