import { mock } from 'node:test';
import { expect } from 'chai';
import type { Actor } from '#src/domain/access/visibility.ts';
import { type BearerAuthenticator, createPassport } from '#src/http/request/authentication.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';

describe('authentication of a request', () => {
  const ada: Actor = { userId: 'ada', orgId: 'o', isOrgAdmin: false, teamIds: [], teamAdminOf: [], openTeamIds: [] };
  let verified: string[];
  let lookedUp: string[];
  let found: Actor | null;
  let failure: Error | null;
  let changed: (orgId: string) => void;
  let authenticate: BearerAuthenticator;

  beforeEach(() => {
    // Stops the clock: cached sessions expire after two seconds.
    mock.timers.enable({ apis: ['Date'], now: 1_000 });
    verified = [];
    lookedUp = [];
    found = ada;
    failure = null;
    ({ authenticate } = createPassport({
      verifyToken: (token) => {
        verified.push(token);
        return { userId: 'ada', sessionId: token.charAt(0) };
      },
      findCaller: async ({ sessionId }) => {
        lookedUp.push(sessionId);
        if (failure !== null) throw failure;
        return found;
      },
      onAccessChange: (listener) => {
        changed = listener;
      },
      findSignInStrategy: null,
    }));
  });

  afterEach(() => mock.timers.reset());

  it('resolves to the user and the session of a token', async () => {
    expect(await authenticate('Bearer s1')).to.deep.include({ actor: ada, sessionId: 's' });
    await authenticate('bearer  s1');
    expect(verified).to.deep.equal(['s1', 's1']);
  });

  it('looks each session up once, however many tokens it has', async () => {
    for (const token of ['s1', 's2', 't1', 's1']) await authenticate(`Bearer ${token}`);
    expect(lookedUp).to.deep.equal(['s', 't']);
  });

  it('returns the current rights of the user, even after the token has expired', async () => {
    const { actorNow } = await authenticate('Bearer s1');
    found = { ...ada, teamIds: ['t'] };
    changed('o');
    expect(await actorNow()).to.deep.include({ teamIds: ['t'] });
    found = null;
    changed('o');
    expect(await appErrorCode(actorNow())).to.equal('invalid_token');
    expect(verified).to.deep.equal(['s1']);
  });

  it('rejects a session that has ended', async () => {
    found = null;
    expect(await appErrorCode(authenticate('Bearer s1'))).to.equal('invalid_token');
  });

  it('passes on an error of the database unchanged, and looks the session up again after it', async () => {
    failure = new Error('connection lost');
    const thrown = await authenticate('Bearer s1').catch((error: unknown) => error);
    expect(thrown).to.equal(failure);
    failure = null;
    expect(await authenticate('Bearer s1')).to.deep.include({ actor: ada });
  });

  it('looks a session up once for concurrent requests', async () => {
    await Promise.all(['s1', 's2', 's1'].map((token) => authenticate(`Bearer ${token}`)));
    expect(lookedUp).to.deep.equal(['s']);
  });

  it('looks a session up again after two seconds', async () => {
    await authenticate('Bearer s1');
    mock.timers.tick(2_001);
    await authenticate('Bearer s1');
    expect(lookedUp).to.have.length(2);
  });

  it('shares a look-up that takes longer than two seconds, and expires it by its start', async () => {
    const first = authenticate('Bearer s1');
    mock.timers.tick(2_001);
    await Promise.all([first, authenticate('Bearer s1')]);
    expect(lookedUp).to.have.length(1);
    await authenticate('Bearer s1');
    expect(lookedUp).to.have.length(2);
  });

  it('does not reuse a look-up that began before a change of rights', async () => {
    const before = authenticate('Bearer s1');
    found = { ...ada, teamIds: ['t'] };
    changed('another organization');
    const { actor } = await authenticate('Bearer s1');
    expect(actor.teamIds).to.deep.equal(['t']);
    expect(lookedUp).to.have.length(2);
    await before;
    await authenticate('Bearer s1');
    expect(lookedUp).to.have.length(2);
  });

  it('does not mix up concurrent requests', async () => {
    const all = await Promise.all(['a', 'b', 'c', 'a'].map((session) => authenticate(`Bearer ${session}`)));
    expect(all.map(({ sessionId }) => sessionId)).to.deep.equal(['a', 'b', 'c', 'a']);
  });

  it('reads rights again immediately after this process has changed them', async () => {
    await authenticate('Bearer s1');
    changed('another organization');
    await authenticate('Bearer s1');
    expect(lookedUp).to.have.length(1);
    changed('o');
    await authenticate('Bearer s1');
    expect(lookedUp).to.have.length(2);
  });

  it('rejects everything but a bearer token, without a lookup', async () => {
    for (const header of [
      undefined,
      '',
      'Bearer',
      'Bearer ',
      'Basic czE=',
      'Bearer s1 s2',
      'Bearer s1,',
      'Bearer \u00e9',
    ]) {
      expect(await appErrorCode(authenticate(header)), header).to.equal('invalid_token');
    }
    expect([...verified, ...lookedUp]).to.deep.equal([]);
  });
});
