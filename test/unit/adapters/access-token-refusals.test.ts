import { createHmac, generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { mock } from 'node:test';
import { expect } from 'chai';
import fc from 'fast-check';
import { jwtVerify } from 'jose';
import { createRs256AccessTokens } from '#src/adapters/tokens/rs256-access-tokens.ts';
import { AppError } from '#src/errors.ts';
import { propertyRuns } from '#test/support/property-runs.ts';

const issuer = 'the-service';
const [own, foreign] = [
  generateKeyPairSync('rsa', { modulusLength: 2_048 }),
  generateKeyPairSync('rsa', { modulusLength: 2_048 }),
];
const privateKeyPem = own.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
const accessTokens = () => createRs256AccessTokens({ privateKeyPem, verifyKeyPems: [], issuer, lifetimeSeconds: 900 });
const { verify, keySet } = accessTokens();
const kid = String(keySet().keys[0]?.kid);

const seconds = () => Math.floor(Date.now() / 1_000);
const goodHeader = { alg: 'RS256', typ: 'at+jwt', kid };
const goodClaims = () => ({
  iss: issuer,
  aud: issuer,
  sub: '01890000-0000-7000-8000-000000000001',
  sid: '01890000-0000-7000-8000-000000000002',
  jti: 'one',
  iat: seconds(),
  exp: seconds() + 900,
});

const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
const signed = (text: string, key: KeyObject = own.privateKey) =>
  `${text}.${sign('RSA-SHA256', Buffer.from(text), key).toString('base64url')}`;
const tokenOf = (header: object = {}, claims: object = {}, key?: KeyObject) =>
  signed(`${encode({ ...goodHeader, ...header })}.${encode({ ...goodClaims(), ...claims })}`, key);

function isAccepted(token: string): boolean {
  try {
    verify(token);
    return true;
  } catch (error) {
    expect(error).to.be.instanceOf(AppError).with.property('code', 'invalid_token');
    return false;
  }
}

async function joseAccepts(token: string): Promise<boolean> {
  const options = { algorithms: ['RS256'], typ: 'at+jwt', issuer, audience: issuer };
  const requiredClaims = ['sub', 'sid', 'jti', 'iat', 'exp'];
  const find = (header: { kid?: string }) => {
    if (header.kid !== kid) throw new Error('unknown key');
    return own.publicKey;
  };
  return jwtVerify(token, find, { ...options, requiredClaims }).then(
    () => true,
    () => false,
  );
}

describe('the check of an access token', () => {
  it('returns the user and the session of a token that the service signed', () => {
    const { sub, sid } = goodClaims();
    expect(verify(tokenOf())).to.deep.equal({ userId: sub, sessionId: sid });
  });

  it('stops accepting a token that it has cached once the token expires', () => {
    mock.timers.enable({ apis: ['Date'], now: Date.now() });
    try {
      const [token, tokens] = [tokenOf(), accessTokens()];
      for (const _ of [1, 2]) tokens.verify(token);
      mock.timers.tick(901_000);
      expect(() => tokens.verify(token)).to.throw('The access token has expired.');
    } finally {
      mock.timers.reset();
    }
  });

  it('says that a token has expired only if this service signed it', () => {
    expect(() => verify(tokenOf({}, { exp: seconds() - 1 }))).to.throw('The access token has expired.');
    expect(() => verify(tokenOf({}, { exp: seconds() - 1 }, foreign.privateKey))).to.throw('is not valid');
  });

  const publicPem = own.publicKey.export({ type: 'spki', format: 'pem' });
  const hmac = (text: string) => `${text}.${createHmac('sha256', publicPem).update(text).digest('base64url')}`;
  const refusedByBoth: Record<string, () => string> = {
    'no signature at all': () => `${encode({ ...goodHeader, alg: 'none' })}.${encode(goodClaims())}.`,
    'a good signature under the algorithm `none`': () => tokenOf({ alg: 'none' }),
    'a missing signature': () => tokenOf().replace(/[^.]+$/, ''),
    'claims that were changed after signing': () => {
      const [header, , signature] = tokenOf().split('.');
      return [header, encode({ ...goodClaims(), sub: '01890000-0000-7000-8000-000000000009' }), signature].join('.');
    },
    'the public key as an HMAC secret': () =>
      hmac(`${encode({ ...goodHeader, alg: 'HS256' })}.${encode(goodClaims())}`),
    'another algorithm of the same key': () => tokenOf({ alg: 'RS512' }),
    'a foreign key under the id of ours': () => tokenOf({}, {}, foreign.privateKey),
    'a key that the token brings along': () =>
      tokenOf(
        { jwk: foreign.publicKey.export({ format: 'jwk' }), jku: 'http://127.0.0.1/', x5u: 'http://127.0.0.1/' },
        {},
        foreign.privateKey,
      ),
    'an unknown key id': () => tokenOf({ kid: 'other' }),
    'no key id': () => tokenOf({ kid: undefined }),
    'the type of an id token': () => tokenOf({ typ: 'JWT' }),
    'no type': () => tokenOf({ typ: undefined }),
    'an extension that must be understood': () => tokenOf({ crit: ['b64'], b64: false }),
    'another issuer': () => tokenOf({}, { iss: 'other' }),
    'another audience': () => tokenOf({}, { aud: 'other' }),
    'an expiry in the past': () => tokenOf({}, { exp: seconds() - 1 }),
    'an expiry that is a text': () => tokenOf({}, { exp: '4000000000' }),
    'a beginning in the future': () => tokenOf({}, { nbf: seconds() + 120 }),
    'claims that are no object': () => signed(`${encode(goodHeader)}.${encode('claims')}`),
    'claims that are no JSON': () => signed(`${encode(goodHeader)}.${Buffer.from('{').toString('base64url')}`),
    'a part too many': () => `${tokenOf()}.AAAA`,
    'a part too few': () => tokenOf().split('.').slice(0, 2).join('.'),
    nothing: () => '',
  };
  for (const claim of ['iss', 'aud', 'sub', 'sid', 'jti', 'iat', 'exp'])
    refusedByBoth[`no claim ${claim}`] = () => tokenOf({}, { [claim]: undefined });
  for (const [what, make] of Object.entries(refusedByBoth)) {
    it(`refuses ${what}, as jose does`, async () => {
      expect(await joseAccepts(make())).to.equal(false);
      expect(isAccepted(make())).to.equal(false);
    });
  }

  const refusedByUs: Record<string, () => string> = {
    'a subject that is no id': () => tokenOf({}, { sub: 'admin' }),
    'a session that is no id': () => tokenOf({}, { sid: '' }),
  };
  for (const [what, make] of Object.entries(refusedByUs)) {
    it(`refuses ${what}, which jose would take`, async () => {
      expect(await joseAccepts(make())).to.equal(true);
      expect(isAccepted(make())).to.equal(false);
    });
  }

  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
  const positions = fc.nat({ max: 10_000 });

  it('accepts a token with one character changed only where jose does, in the unused bits of the signature', async () => {
    const token = tokenOf();
    await fc.assert(
      fc.asyncProperty(positions, fc.constantFrom(...alphabet, '.', '=', '+', ' '), async (position, character) => {
        const at = position % token.length;
        const damaged = token.slice(0, at) + character + token.slice(at + 1);
        fc.pre(damaged !== token);
        const isRefused = !isAccepted(damaged);
        expect(isRefused).to.equal(!(await joseAccepts(damaged)));
        expect(isRefused || at === token.length - 1).to.equal(true);
      }),
      { numRuns: propertyRuns(500), examples: [[token.length - 1, 'A']] },
    );
  });

  it('refuses padding and characters outside base64url', () => {
    const token = tokenOf();
    const others = [`${token}==`, `${token}=`, `${token}\n`, ` ${token}`, `${token}+`, `${token}/`];
    expect(others.filter(isAccepted)).to.deep.equal([]);
  });

  it('comes to the same verdict as jose over headers and claims of all kinds', async () => {
    const offset = fc.constantFrom(-1_000, -60, -2, 30, 900);
    const optional = <Value>(arbitrary: fc.Arbitrary<Value>) => fc.option(arbitrary, { nil: undefined, freq: 8 });
    const facts = fc.record({
      alg: fc.constantFrom('RS256', 'RS256', 'RS256', 'RS384', 'PS256', 'HS256', 'none', 'rs256', ''),
      typ: optional(fc.constantFrom('at+jwt', 'at+jwt', 'at+jwt', 'JWT', '', 'id+jwt')),
      kid: optional(fc.constantFrom(kid, kid, kid, 'other', '', '__proto__')),
      extra: fc.constantFrom({}, {}, { jku: 'http://127.0.0.1/' }, { crit: ['exp'] }, { b64: true }),
      key: fc.constantFrom(own.privateKey, own.privateKey, own.privateKey, foreign.privateKey),
      iss: optional(fc.constantFrom(issuer, issuer, issuer, 'other', 7)),
      aud: optional(fc.constantFrom<unknown>(issuer, issuer, issuer, 'other', [], ['other'])),
      jti: optional(fc.constant('one')),
      exp: optional(offset),
      nbf: fc.option(fc.constantFrom(-60, 0, 600), { nil: undefined, freq: 3 }),
    });
    // Few random tokens are valid in all respects.
    const right = { typ: 'at+jwt', kid, iss: issuer, aud: issuer, jti: 'one', exp: 900, nbf: undefined } as const;
    const sound = { ...right, alg: 'RS256', extra: {}, key: own.privateKey } as const;
    let accepted = 0;
    await fc.assert(
      fc.asyncProperty(facts, async ({ alg, typ, kid: keyId, extra, key, exp, nbf, ...claims }) => {
        const at = (after: number | undefined) => (after === undefined ? undefined : seconds() + after);
        const token = tokenOf(
          { alg, typ, kid: keyId, ...extra },
          { ...claims, exp: at(exp), nbf: at(nbf), iat: seconds() },
          key,
        );
        const verdict = isAccepted(token);
        // Only header parameters that we sign with are accepted.
        expect(verdict).to.equal(Object.keys(extra).length === 0 && (await joseAccepts(token)));
        if (verdict) accepted += 1;
      }),
      { numRuns: propertyRuns(500), examples: [[sound]] },
    );
    expect(accepted).to.be.greaterThan(0);
  });

  it('refuses arbitrary text and never fails otherwise', () => {
    const texts = fc.oneof(fc.string(), fc.string({ unit: 'binary' }), fc.base64String(), fc.json());
    fc.assert(fc.property(fc.array(texts, { maxLength: 4 }), (parts) => !isAccepted(parts.join('.'))));
    const jsons = fc.tuple(fc.jsonValue(), fc.jsonValue());
    fc.assert(
      fc.property(jsons, ([header, claims]) => !isAccepted(signed(`${encode(header)}.${encode(claims)}`))),
      {
        numRuns: 50,
      },
    );
  });
});
