import { createHmac, generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { mock } from 'node:test';
import { expect } from 'chai';
import { decodeJwt, decodeProtectedHeader, jwtVerify } from 'jose';
import { createRs256AccessTokens } from '#src/adapters/tokens/rs256-access-tokens.ts';
import { AppError } from '#src/errors.ts';

const issuer = 'the-service';
const newKey = () => {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2_048 });
  const privatePem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
  return { privateKey, publicKey, privatePem, publicPem: publicKey.export({ type: 'spki', format: 'pem' }).toString() };
};
const [own, foreign] = [newKey(), newKey()];
const serviceWith = (options: Partial<Parameters<typeof createRs256AccessTokens>[0]> = {}) =>
  createRs256AccessTokens({
    ...{ privateKeyPem: own.privatePem, verifyKeyPems: [], issuer, lifetimeSeconds: 900 },
    ...options,
  });
const service = serviceWith();
const kid = String(service.keySet().keys[0]?.kid);
const [userId, sessionId] = ['01890000-0000-7000-8000-000000000001', '01890000-0000-7000-8000-000000000002'];

const seconds = () => Math.floor(Date.now() / 1_000);
const goodHeader = { alg: 'RS256', typ: 'at+jwt', kid };
const goodClaims = () => ({
  ...{ iss: issuer, aud: issuer, sub: userId, sid: sessionId, jti: 'one' },
  ...{ iat: seconds(), exp: seconds() + 900 },
});
const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
const signed = (text: string, key: KeyObject = own.privateKey) =>
  `${text}.${sign('RSA-SHA256', Buffer.from(text), key).toString('base64url')}`;
const tokenOf = (header: object = {}, claims: object = {}, key?: KeyObject) =>
  signed(`${encode({ ...goodHeader, ...header })}.${encode({ ...goodClaims(), ...claims })}`, key);
const hmac = (text: string) => `${text}.${createHmac('sha256', own.publicPem).update(text).digest('base64url')}`;

function isAccepted(token: string): boolean {
  try {
    service.verify(token);
    return true;
  } catch (error) {
    expect(error).instanceOf(AppError).property('code', 'invalid_token');
    return false;
  }
}

/** What the library jose, with the same rules, says of a token. */
function joseAccepts(token: string): Promise<boolean> {
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

describe('an access token', () => {
  const teamIds = ['01890000-0000-7000-8000-000000000004'];
  const rights = { orgId: '01890000-0000-7000-8000-000000000003', teamIds, teamAdminOf: [], isOrgAdmin: true };
  const claims = { userId, sessionId, ...rights, tier: 'free' };

  it('has the documented claims and the id of its key, and identifies its user and session', async () => {
    const token = await service.sign(claims);
    expect(decodeProtectedHeader(token)).deep.equal(goodHeader);
    const { iat = 0, exp, jti, ...payload } = decodeJwt(token);
    expect(payload).deep.include({ iss: issuer, aud: issuer, sub: userId, sid: sessionId, org_id: claims.orgId });
    expect(payload).deep.include({ is_org_admin: true, tier: 'free', team_ids: teamIds });
    expect([typeof jti, exp]).deep.equal(['string', iat + 900]);
    expect(service.verify(token)).deep.equal({ userId, sessionId });
  });

  it('fits into an HTTP header for an admin of a thousand teams', async () => {
    const many = Array.from({ length: 1_000 }, () => crypto.randomUUID());
    const token = await service.sign({ ...claims, teamIds: many, teamAdminOf: many });
    expect(token.length).below(8_000);
    expect(service.verify(token)).include({ userId });
  });

  it('is verified, but cannot be signed, by a process that has only the public key', async () => {
    const verifying = serviceWith({ privateKeyPem: null, verifyKeyPems: [own.publicPem] });
    expect(verifying.verify(await service.sign(claims))).include({ userId });
    const refused = await verifying.sign(claims).catch((error: unknown) => error);
    expect(refused).property('message', 'This process has no private key to sign access tokens with.');
  });

  it('stays valid through a key rotation, in which each public key is published once', async () => {
    const announced = serviceWith({ verifyKeyPems: [foreign.privatePem, own.publicPem] });
    const changed = serviceWith({ privateKeyPem: foreign.privatePem, verifyKeyPems: [own.publicPem] });
    const over = serviceWith({ privateKeyPem: foreign.privatePem });
    const [first, second] = [await announced.sign(claims), await changed.sign(claims)];
    for (const each of [announced, changed]) {
      expect(each.keySet().keys).length(2);
      for (const key of each.keySet().keys) expect(key).all.keys('kty', 'use', 'alg', 'kid', 'n', 'e');
      for (const token of [first, second]) expect(each.verify(token)).include({ userId });
    }
    expect(over.keySet().keys).length(1);
    expect(over.verify(second)).include({ userId });
    expect(() => over.verify(first)).throw(AppError, 'is not valid');
  });

  it('that has expired is rejected as expired if this service signed it, also if cached, and otherwise as invalid', () => {
    const expired = { exp: seconds() - 1 };
    expect(() => service.verify(tokenOf({}, expired))).throw('The access token has expired.');
    expect(() => service.verify(tokenOf({}, expired, foreign.privateKey))).throw('is not valid');
    mock.timers.enable({ apis: ['Date'], now: Date.now() });
    try {
      const [token, caching] = [tokenOf(), serviceWith()];
      for (const _ of [1, 2]) caching.verify(token);
      mock.timers.tick(901_000);
      expect(() => caching.verify(token)).throw('The access token has expired.');
    } finally {
      mock.timers.reset();
    }
  });

  const brought = { jwk: foreign.publicKey.export({ format: 'jwk' }), jku: 'http://127.0.0.1/', x5u: 'http://a/' };
  const claimsOf = (payload: string) => signed(`${encode(goodHeader)}.${Buffer.from(payload).toString('base64url')}`);
  const refusals: Record<string, () => string> = {
    'no signature': () => `${encode({ ...goodHeader, alg: 'none' })}.${encode(goodClaims())}.`,
    'an empty signature': () => tokenOf().replace(/[^.]+$/, ''),
    'claims that were changed after signing': () =>
      tokenOf().replace(/\.[^.]+\./, `.${encode({ ...goodClaims(), sub: sessionId })}.`),
    'the public key as an HMAC secret': () =>
      hmac(`${encode({ ...goodHeader, alg: 'HS256' })}.${encode(goodClaims())}`),
    'another algorithm': () => tokenOf({ alg: 'RS384' }),
    'another type': () => tokenOf({ typ: 'JWT' }),
    'no type': () => tokenOf({ typ: undefined }),
    'an unknown key': () => tokenOf({ kid: '__proto__' }),
    'a foreign key under the id of ours': () => tokenOf({}, {}, foreign.privateKey),
    'a key that the token brings along': () => tokenOf(brought, {}, foreign.privateKey),
    'an extension that must be understood': () => tokenOf({ crit: ['b64'], b64: false }),
    'another issuer': () => tokenOf({}, { iss: 'other' }),
    'another audience': () => tokenOf({}, { aud: ['other'] }),
    'an expiry that is a text': () => tokenOf({}, { exp: '4000000000' }),
    'a beginning in the future': () => tokenOf({}, { nbf: seconds() + 120 }),
    'claims that are no object': () => claimsOf('"claims"'),
    'claims that are no JSON': () => claimsOf('{'),
    'a part too many': () => `${tokenOf()}.AAAA`,
    'a part too few': () => tokenOf().split('.').slice(0, 2).join('.'),
  };
  for (const claim of ['iss', 'aud', 'sub', 'sid', 'jti', 'iat', 'exp']) {
    refusals[`no claim ${claim}`] = () => tokenOf({}, { [claim]: undefined });
  }
  it('is rejected by the service in every invalid form that the library jose rejects', async () => {
    for (const [what, make] of Object.entries(refusals)) {
      expect([isAccepted(make()), await joseAccepts(make())], what).deep.equal([false, false]);
    }
    const begun = tokenOf({}, { nbf: seconds() - 60 });
    expect([isAccepted(begun), await joseAccepts(begun)]).deep.equal([true, true]);
  });

  it('is rejected, unlike by jose, if its subject or session is not an id or its header has extra fields', async () => {
    for (const token of [
      tokenOf({}, { sub: 'admin' }),
      tokenOf({}, { sid: '' }),
      tokenOf({ jku: 'http://127.0.0.1/' }),
    ]) {
      expect([isAccepted(token), await joseAccepts(token)]).deep.equal([false, true]);
    }
  });
});
