import { expect } from 'chai';
import { appErrorCode } from '#test/support/app-error-code.ts';
import type { Member } from '#test/support/client.ts';
import {
  connectionPath,
  listRoot,
  renewsTokenOnceForConcurrentCallers,
} from '#test/support/connector-provider-cases.ts';
import { type ConnectorStack, connect, connectorStack } from '#test/support/connector-stack.ts';

// Encryption, and the race of a refresh with a new consent: test/api/tools/credentials.test.ts.
describe('credentials of connections', () => {
  let api: ConnectorStack;
  let ada: Member;
  before(async () => {
    api = await connectorStack();
    ada = await api.signUp();
  });

  const row = (id: string) => api.container.db('connections').where({ id });
  const list = (id: string) => listRoot(api, ada.orgId, id);

  it('are renewed once for concurrent callers', () =>
    renewsTokenOnceForConcurrentCallers({ api, member: ada, provider: 'acme_drive' }));

  it('fail with needs_reauth after the grant is revoked, without calls to the provider until the next consent', async () => {
    const account = { account: 'again@example.com' };
    const { id } = await connect(api, ada, 'acme_dropbox', account);
    const { revokeGrants, calls } = api.fakes.acme_dropbox;
    revokeGrants();
    expect(await appErrorCode(list(id))).equal('needs_reauth');
    const before = calls.length;
    expect(await appErrorCode(list(id))).equal('needs_reauth');
    expect(calls).length(before);
    await connect(api, ada, 'acme_dropbox', account);
    await list(id);
  });

  it('leave the version of their connection as it is when they are refreshed', async () => {
    const { id } = await connect(api, ada, 'acme_drive');
    const { headers } = await ada.get(connectionPath(id), 200);
    const [before] = await row(id);
    await row(id).update({ expiresAt: new Date(0) });
    await list(id);
    expect((await row(id))[0].generation).above(before.generation);
    await ada.patch(connectionPath(id), { display_name: 'Mine' }, 200, { 'if-match': headers.get('etag') ?? '' });
  });

  it('that arrive after their connection was deleted are revoked', async () => {
    const { id } = await connect(api, ada, 'acme_drive');
    const { liveGrants, holdNext, failNext } = api.fakes.acme_drive;
    const before = liveGrants();
    await row(id).update({ expiresAt: new Date(0) });
    const held = holdNext();
    const listed = appErrorCode(list(id));
    await held.arrived;
    // The revocation of the old credentials fails.
    failNext(1, { status: 503 });
    await ada.delete(connectionPath(id), 204);
    held.release();
    expect(await listed).equal('connection_not_found');
    expect(liveGrants()).equal(before - 1);
  });
});
