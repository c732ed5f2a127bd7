import { mock } from 'node:test';
import { expect } from 'chai';
import { createSignInStrategy } from '#src/adapters/oauth/sign-in-strategy.ts';
import { createIdentityProviderHttpClient } from '#src/adapters/web/provider-caller.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import { type BearerAuthenticator, createPassport } from '#src/http/request/authentication.ts';
import type { SignInAttempt } from '#src/ports/identity.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { type IdentityProvider, startIdentityProvider, type Tampering } from '#test/support/identity-provider.ts';
import { anActor } from '#test/support/served-routes.ts';
import { signInAtProvider } from '#test/support/sign-in-at-provider.ts';

describe('authenticating a request', () => {
  const ada = anActor({ userId: 'ada' });
  let verified: string[];
  let lookedUp: string[];
  let found: Actor | null | Error;
  let changed: (orgId: string) => void;
  let authenticate: BearerAuthenticator;

  beforeEach(() => {
    // Stops the clock: cached sessions expire after two seconds.
    mock.timers.enable({ apis: ['Date'], now: 1_000 });
    verified = [];
    lookedUp = [];
    found = ada;
    ({ authenticate } = createPassport({
      verifyToken: (token) => {
        verified.push(token);
        return { userId: 'ada', sessionId: token.charAt(0) };
      },
      findCaller: async ({ sessionId }) => {
        lookedUp.push(sessionId);
        if (found instanceof Error) throw found;
        return found;
      },
      onAccessChange: (listener) => {
        changed = listener;
      },
      findKeyCaller: async () => null,
      findSignInStrategy: null,
    }));
  });
  afterEach(() => mock.timers.reset());

  const ask = (token = 's1') => authenticate(`Bearer ${token}`);

  it('returns the user and the session of a token, and rejects a session that has ended', async () => {
    expect(await ask()).deep.include({ actor: ada, sessionId: 's' });
    expect(await authenticate('bearer  s1')).deep.include({ actor: ada });
    found = null;
    expect(await appErrorCode(ask('t1'))).equal('invalid_token');
  });

  it('rejects a request without a well-formed bearer token before any database lookup', async () => {
    const others = ['', 'Bearer', 'Bearer ', 'Basic czE=', 'Bearer s1 s2', 'Bearer s1,', 'Bearer \u00e9'];
    for (const header of [undefined, ...others]) {
      expect(await appErrorCode(authenticate(header)), header).equal('invalid_token');
    }
    expect([...verified, ...lookedUp]).deep.equal([]);
  });

  it('looks each session up once in two seconds, also for concurrent requests with several tokens', async () => {
    const all = await Promise.all(['s1', 's2', 't1', 's1'].map(ask));
    expect(all.map(({ sessionId }) => sessionId)).deep.equal(['s', 's', 't', 's']);
    expect(lookedUp).deep.equal(['s', 't']);
    mock.timers.tick(2_001);
    await ask();
    expect(lookedUp).deep.equal(['s', 't', 's']);
  });

  it('reads rights again if this process changed rights in the organization after the last lookup began', async () => {
    await ask();
    changed('another organization');
    await ask();
    expect(lookedUp).length(1);
    changed('o');
    const before = ask();
    found = { ...ada, teamIds: ['t'] };
    changed('o');
    expect((await ask()).actor.teamIds).deep.equal(['t']);
    await before;
    await ask();
    expect(lookedUp).length(3);
  });

  it('lets a long request read the current rights of its user later, even if its token has expired', async () => {
    const { actorNow } = await ask();
    found = { ...ada, teamIds: ['t'] };
    changed('o');
    expect(await actorNow()).deep.include({ teamIds: ['t'] });
    found = null;
    changed('o');
    expect(await appErrorCode(actorNow())).equal('invalid_token');
    expect(verified).deep.equal(['s1']);
  });

  it('passes on an error of the database unchanged, and looks the session up again after it', async () => {
    const failure = new Error('connection lost');
    found = failure;
    expect(await ask().catch((error: unknown) => error)).equal(failure);
    found = ada;
    expect(await ask()).deep.include({ actor: ada });
  });
});

describe('the client of an identity provider', () => {
  const redirectUri = 'https://app.example/signed-in';
  let server: IdentityProvider;
  beforeEach(async () => {
    server = await startIdentityProvider({ redirectOrigins: ['https://app.example'] });
  });
  afterEach(() => server.close());

  function clientOf({ issuer, client }: IdentityProvider) {
    const call = createIdentityProviderHttpClient({ issuer, allow: [], deadlineMs: 5_000 });
    const { identityProvider } = createPassport({
      verifyToken: () => ({ userId: 'u', sessionId: 's' }),
      findCaller: async () => null,
      findKeyCaller: async () => null,
      onAccessChange: () => {},
      findSignInStrategy: createSignInStrategy({ call, issuer, client }),
    });
    if (identityProvider === null) throw new Error('no identity provider');
    return identityProvider;
  }

  async function signIn(provider: ReturnType<typeof clientOf>) {
    const { url, ...attempt } = await provider.begin({ redirectUri, state: 'state-1' });
    const back = await signInAtProvider(url, server.addAccount({ sub: 'ada', email: 'ada@example.com' }));
    const answer = { code: back.searchParams.get('code') ?? '', issuer: undefined };
    return (changes: Partial<SignInAttempt> = {}) => provider.identify({ ...attempt, ...changes }, answer);
  }

  it('rejects an authorization code with the verifier or the nonce of another sign-in attempt', async () => {
    const provider = clientOf(server);
    const { codeVerifier, nonce } = await provider.begin({ redirectUri, state: 'state-2' });
    expect(await appErrorCode((await signIn(provider))({ codeVerifier }))).equal('sign_in_invalid');
    expect(await appErrorCode((await signIn(provider))({ nonce }))).equal('identity_not_verified');
  });

  const ofSubject = (sub: string): Tampering => ({
    idToken: (claims) => ({ ...claims, sub }),
    userinfo: (claims) => ({ ...claims, sub }),
  });
  const withClaims = (claims: object): Tampering => ({ idToken: (said) => ({ ...said, ...claims }) });
  /** What a false or broken provider does after the user has signed in, by the code of the error. */
  const failures: Record<string, Record<string, Tampering>> = {
    identity_not_verified: {
      'an ID token of another issuer': withClaims({ iss: 'https://elsewhere.example' }),
      'an ID token for another service': withClaims({ aud: 'another-service' }),
      'an ID token for another authorized party': withClaims({ azp: 'another-service' }),
      'an ID token that has expired': withClaims({ exp: Math.floor(Date.now() / 1_000) - 3_600 }),
      'an ID token signed with another key': { signature: 'other_key' },
      'an ID token without a signature': { signature: 'none' },
      'a subject of 256 characters': ofSubject('a'.repeat(256)),
      'a subject that is not ASCII': ofSubject('jos\u00e9'),
      'the userinfo of another user': { userinfo: (claims) => ({ ...claims, sub: 'other' }) },
      'an empty key set': { answers: { jwks: { status: 200, body: { keys: [] } } } },
    },
    provider_response_invalid: {
      'a page instead of the userinfo': { userinfo: () => '<p>Welcome</p>' },
    },
    provider_rejected: {
      'a token endpoint that is not found': { answers: { token: { status: 404 } } },
      'an access token without rights': { answers: { userinfo: { status: 403 } } },
      'a rejected access token': { answers: { userinfo: { status: 401, headers: { 'www-authenticate': 'Bearer' } } } },
    },
    provider_unavailable: {
      'an error of the key set': { answers: { jwks: { status: 500 } } },
      'a lost connection to the key set': { answers: { jwks: 'cut' } },
    },
  };
  for (const [code, ofCode] of Object.entries(failures)) {
    it(`fails with ${code} for ${Object.keys(ofCode)[0]} and similar errors`, async () => {
      for (const [what, tampering] of Object.entries(ofCode)) {
        const identify = await signIn(clientOf(server));
        server.tamper(tampering);
        expect(await appErrorCode(identify()), what).equal(code);
        server.tamper({});
      }
    });
  }

  it('rejects a discovery document of another issuer or without usable addresses', async () => {
    const { issuer } = server;
    const addresses = { authorization_endpoint: `${issuer}/auth`, token_endpoint: `${issuer}/token`, jwks_uri: issuer };
    const incomplete = Object.keys(addresses).flatMap((name) =>
      [undefined, 'ftp://elsewhere.example'].map((address) => ({ issuer, ...addresses, [name]: address })),
    );
    const provider = clientOf(server);
    const begin = () => appErrorCode(provider.begin({ redirectUri, state: 'state-1' }));
    for (const body of [{ issuer: 'https://elsewhere.example' }, { issuer: 'nobody' }, {}, ...incomplete]) {
      server.tamper({ answers: { discovery: { status: 200, body } } });
      expect(await begin(), JSON.stringify(body)).equal('provider_response_invalid');
    }
    server.tamper({ answers: { discovery: { status: 404 } } });
    expect(await begin()).equal('provider_rejected');
  });

  it('connects only to the address of the issuer and to public addresses', async () => {
    const other = await startIdentityProvider({ redirectOrigins: ['https://app.example'] });
    const addresses = { token_endpoint: `${other.issuer}/token`, jwks_uri: `${other.issuer}/jwks` };
    const body = { issuer: server.issuer, authorization_endpoint: `${server.issuer}/auth`, ...addresses };
    server.tamper({ answers: { discovery: { status: 200, body } } });
    const identify = await signIn(clientOf(server));
    expect(await appErrorCode(identify())).equal('provider_unavailable');
    expect(other.calls).deep.equal([]);
    await other.close();
  });

  it('takes email and email_verified both from the userinfo or both from the ID token', async () => {
    const provider = clientOf(server);
    const inToken = { email: 'old@example.com', email_verified: true };
    const email = 'ada@example.com';
    const unverified = { email, email_verified: false };
    for (const [userinfo, expected] of [
      [{ email }, { email, email_verified: undefined }],
      [unverified, unverified],
      [{}, inToken],
      [{ email_verified: false }, inToken],
    ] as const) {
      const identify = await signIn(provider);
      server.tamper({ ...withClaims(inToken), userinfo: ({ sub }) => ({ sub, ...userinfo }) });
      expect((await identify()).claims).include(expected);
    }
  });
});
