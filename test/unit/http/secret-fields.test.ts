import { randomBytes } from 'node:crypto';
import { expect } from 'chai';
import { z } from 'zod';
import { omitSecretFields } from '#src/http/request/body.ts';
import { fingerprintRequest } from '#src/http/routing/dispatch.ts';

const secret = () => z.string().meta({ writeOnly: true });

describe('secret fields of a body', () => {
  it('are removed wherever the schema has them', () => {
    const keys = z.strictObject({ id: z.string(), secret: secret().optional() }).transform(({ id }) => id);
    const schema = z.strictObject({
      name: z.string().transform((name) => name.trim()),
      password: secret().pipe(z.string().min(1)),
      token: z.string().nullable().meta({ writeOnly: true }).optional(),
      keys: keys.optional(),
      list: z.array(z.union([z.strictObject({ pin: secret() }), z.strictObject({ word: z.string() })])),
    });
    const sent = {
      name: ' a ',
      password: 'p',
      token: 't',
      keys: { id: 'k', secret: 's' },
      list: [{ pin: '1' }, { word: 'w' }],
      unknown: { password: 'stays, and is refused by the schema' },
    };
    expect(omitSecretFields(schema, sent)).deep.equal({
      name: ' a ',
      keys: { id: 'k' },
      list: [{}, { word: 'w' }],
      unknown: { password: 'stays, and is refused by the schema' },
    });
  });

  it('keeps values that are not objects', () => {
    expect(omitSecretFields(z.strictObject({ password: secret() }), 'text')).equal('text');
    expect(omitSecretFields(z.strictObject({ password: secret() }), null)).equal(null);
  });
});

describe('the fingerprint of a request', () => {
  it('ignores the order of fields and depends on the key', () => {
    const [key, otherKey] = [randomBytes(32), randomBytes(32)];
    expect(fingerprintRequest(key, { a: 1, b: 2 })).equal(fingerprintRequest(key, { b: 2, a: 1 }));
    expect(fingerprintRequest(key, { a: 1 })).not.equal(fingerprintRequest(key, { a: 2 }));
    expect(fingerprintRequest(key, { a: 1 })).not.equal(fingerprintRequest(otherKey, { a: 1 }));
  });
});
