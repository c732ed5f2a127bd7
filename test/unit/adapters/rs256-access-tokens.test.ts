import { generateKeyPairSync } from 'node:crypto';
import { expect } from 'chai';
import { decodeJwt, decodeProtectedHeader } from 'jose';
import { createRs256AccessTokens } from '#src/adapters/tokens/rs256-access-tokens.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';

const newKey = () =>
  generateKeyPairSync('rsa', {
    modulusLength: 2_048,
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'pem' },
  });

describe('RS256 access tokens', () => {
  const [old, next] = [newKey(), newKey()];
  const options = { privateKeyPem: old.privateKey, verifyKeyPems: [], issuer: 'the-service', lifetimeSeconds: 900 };
  const tokens = createRs256AccessTokens(options);
  const claims = {
    userId: '01890000-0000-7000-8000-000000000001',
    sessionId: '01890000-0000-7000-8000-000000000002',
    orgId: '01890000-0000-7000-8000-000000000003',
    teamIds: ['01890000-0000-7000-8000-000000000004'],
    teamAdminOf: [],
    isOrgAdmin: true,
    tier: 'free',
  };

  it('carry the claims of the contract and the id of their key', async () => {
    const token = await tokens.sign(claims);
    const payload = decodeJwt(token);
    const [key] = tokens.keySet().keys;
    expect(decodeProtectedHeader(token)).to.deep.equal({ alg: 'RS256', typ: 'at+jwt', kid: key?.kid });
    expect(payload).to.include({ iss: 'the-service', aud: 'the-service', sub: claims.userId, org_id: claims.orgId });
    expect(payload).to.include({ is_org_admin: true, tier: 'free', sid: claims.sessionId });
    expect(payload.team_ids).to.deep.equal(claims.teamIds);
    expect(payload).to.have.property('jti');
    expect((payload.exp ?? 0) - (payload.iat ?? 0)).to.equal(900);
  });

  it('verify to their user and their session', async () => {
    const { userId, sessionId } = claims;
    expect(tokens.verify(await tokens.sign(claims))).to.deep.equal({ userId, sessionId });
  });

  it('fit into a header for a member of any number of teams', async () => {
    const teamIds = Array.from({ length: 1_000 }, () => crypto.randomUUID());
    const token = await tokens.sign({ ...claims, teamIds, teamAdminOf: teamIds });
    expect(token.length).to.be.lessThan(8_000);
    expect(tokens.verify(token).userId).to.equal(claims.userId);
  });

  it('can be verified but not signed without the private key', async () => {
    const verifying = createRs256AccessTokens({ ...options, privateKeyPem: null, verifyKeyPems: [old.publicKey] });
    expect(verifying.verify(await tokens.sign(claims)).userId).to.equal(claims.userId);
    const refused = await verifying.sign(claims).catch((error: unknown) => error);
    expect(refused).property('message', 'This process has no private key to sign access tokens with.');
  });

  it('publish only public keys', () => {
    const { keys } = createRs256AccessTokens({ ...options, verifyKeyPems: [next.privateKey] }).keySet();
    for (const key of keys) expect(key).to.have.all.keys('kty', 'use', 'alg', 'kid', 'n', 'e');
  });

  it('stay valid through a key rotation', async () => {
    const announced = createRs256AccessTokens({ ...options, verifyKeyPems: [next.publicKey] });
    const changed = createRs256AccessTokens({
      ...options,
      privateKeyPem: next.privateKey,
      verifyKeyPems: [old.publicKey],
    });
    const over = createRs256AccessTokens({ ...options, privateKeyPem: next.privateKey });
    const [first, second] = [await announced.sign(claims), await changed.sign(claims)];
    for (const service of [announced, changed]) {
      expect(service.keySet().keys).to.have.length(2);
      for (const token of [first, second]) expect(service.verify(token).userId).to.equal(claims.userId);
    }
    expect(over.keySet().keys).to.have.length(1);
    expect(over.verify(second).userId).to.equal(claims.userId);
    expect(await appErrorCode((async () => over.verify(first))())).to.equal('invalid_token');
  });

  it('publish a key that is configured twice only once', () => {
    const twice = createRs256AccessTokens({ ...options, verifyKeyPems: [old.publicKey] });
    expect(twice.keySet()).to.deep.equal(tokens.keySet());
  });
});
