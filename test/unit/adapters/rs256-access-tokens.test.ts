import { createHmac, createPrivateKey, generateKeyPairSync } from 'node:crypto';
import { expect } from 'chai';
import { decodeJwt, decodeProtectedHeader, SignJWT } from 'jose';
import { createRs256AccessTokens } from '#src/adapters/tokens/rs256-access-tokens.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';

const newKey = () =>
  generateKeyPairSync('rsa', { modulusLength: 2_048 }).privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();

describe('RS256 access tokens', () => {
  const privateKeyPem = newKey();
  const options = { privateKeyPem, issuer: 'the-service', lifetimeSeconds: 900 };
  const tokens = createRs256AccessTokens(options);
  const userId = '01890000-0000-7000-8000-000000000001';
  const claims = {
    userId,
    sessionId: '01890000-0000-7000-8000-000000000002',
    orgId: '01890000-0000-7000-8000-000000000003',
    teamIds: [],
    teamAdminOf: [],
    isOrgAdmin: true,
    tier: 'free',
  };

  it('carry the claims of the contract and the id of their key', async () => {
    const token = await tokens.sign(claims);
    const payload = decodeJwt(token);
    const [key] = tokens.keySet().keys;
    expect(decodeProtectedHeader(token)).to.deep.equal({ alg: 'RS256', typ: 'at+jwt', kid: key?.kid });
    expect(payload).to.include({ iss: 'the-service', aud: 'the-service', sub: userId, org_id: claims.orgId });
    expect(payload).to.include({ is_org_admin: true, tier: 'free', sid: claims.sessionId });
    expect(payload).to.have.property('jti');
    expect((payload.exp ?? 0) - (payload.iat ?? 0)).to.equal(900);
  });

  it('verify to their user and their expiry', async () => {
    const verified = await tokens.verify(await tokens.sign(claims));
    expect(verified.userId).to.equal(userId);
    expect(verified.expiresAtMs).to.be.greaterThan(Date.now());
  });

  it('publish the public half of the key only', () => {
    expect(Object.keys(tokens.keySet().keys[0] ?? {})).to.have.members(['kty', 'use', 'alg', 'kid', 'n', 'e']);
  });

  describe('refuse', () => {
    const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
    const kid = tokens.keySet().keys[0]?.kid ?? '';
    const payload = { iss: 'the-service', aud: 'the-service', sub: userId, jti: 'x', exp: 4_000_000_000 };
    const body = (header: object) => `${encode({ typ: 'at+jwt', kid, ...header })}.${encode(payload)}`;

    const refused: Record<string, () => Promise<string> | string> = {
      'a token without signature': () => `${body({ alg: 'none' })}.`,
      'a token signed with the public key as a secret': () => {
        const text = body({ alg: 'HS256' });
        const secret = JSON.stringify(tokens.keySet().keys[0]);
        return `${text}.${createHmac('sha256', secret).update(text).digest('base64url')}`;
      },
      'a token of another key under our key id': async () => {
        const other = createRs256AccessTokens({ ...options, privateKeyPem: newKey() });
        const [, claimsPart, signature] = (await other.sign(claims)).split('.');
        return `${encode({ alg: 'RS256', typ: 'at+jwt', kid })}.${claimsPart}.${signature}`;
      },
      'a token of an unknown key': () => createRs256AccessTokens({ ...options, privateKeyPem: newKey() }).sign(claims),
      'a token of another issuer': () => createRs256AccessTokens({ ...options, issuer: 'other' }).sign(claims),
      'an expired token': () => createRs256AccessTokens({ ...options, lifetimeSeconds: -10 }).sign(claims),
      'a token of another type': () =>
        new SignJWT(payload)
          .setProtectedHeader({ alg: 'RS256', typ: 'JWT', kid })
          .sign(createPrivateKey(privateKeyPem)),
      'a changed token': async () => (await tokens.sign(claims)).replace(/\.[^.]{8}/, '.AAAAAAAA'),
      garbage: () => 'hello',
    };
    for (const [what, make] of Object.entries(refused)) {
      it(what, async () => {
        expect(await appErrorCode(tokens.verify(await make()))).to.equal('invalid_token');
      });
    }
  });
});
