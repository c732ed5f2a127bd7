import { randomBytes } from 'node:crypto';
import { expect } from 'chai';
import { createContainer } from '#src/container.ts';
import type { EncryptionKey } from '#src/keys.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { aStoredConnection } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { listRoot, renewsTokenOnceForConcurrentCallers } from '#test/support/connector-provider-cases.ts';
import { type ConnectorStack, connect, connectorStack } from '#test/support/connector-stack.ts';

describe('credentials of connections', () => {
  let api: ConnectorStack;
  let ada: Member;
  before(async () => {
    api = await connectorStack();
    ada = await api.signUp();
    await api.container.db('organizations').where({ id: ada.orgId }).update({ tier: 'max' });
  });

  const row = (id: string) => api.container.db('connections').where({ id });
  const list = (id: string, container = api.container) => listRoot({ container }, ada.orgId, id);

  it('are renewed once for concurrent callers', () =>
    renewsTokenOnceForConcurrentCallers({ api, member: ada, provider: 'acme_drive' }));

  it('fail with needs_reauth after the grant is revoked, without further calls to the provider until the next consent', async () => {
    const account = { account: 'again@example.com' };
    const { id } = await connect(api, ada, 'acme_dropbox', account);
    api.fakes.acme_dropbox.revokeGrants();
    expect(await appErrorCode(list(id))).equal('needs_reauth');
    const calls = api.fakes.acme_dropbox.calls.length;
    expect(await appErrorCode(list(id))).equal('needs_reauth');
    expect(api.fakes.acme_dropbox.calls).length(calls);
    await connect(api, ada, 'acme_dropbox', account);
    await list(id);
  });

  it('leave the version of their connection as it is when they are refreshed', async () => {
    const { id } = await connect(api, ada, 'acme_drive');
    const path = `/connectors/connections/${id}`;
    const { headers } = await ada.get(path, 200);
    const [before] = await row(id);
    await row(id).update({ expiresAt: new Date(0) });
    await list(id);
    expect((await row(id))[0].generation).greaterThan(before.generation);
    await ada.patch(path, { display_name: 'Mine' }, 200, { 'if-match': headers.get('etag') ?? '' });
  });

  it('that arrive after their connection was deleted are revoked', async () => {
    const { id } = await connect(api, ada, 'acme_drive');
    const before = api.fakes.acme_drive.liveGrants();
    await row(id).update({ expiresAt: new Date(0) });
    const held = api.fakes.acme_drive.holdNext();
    const listed = appErrorCode(list(id));
    await held.arrived;
    // The revocation of the old credentials fails.
    api.fakes.acme_drive.failNext(1, { status: 503 });
    await ada.delete(`/connectors/connections/${id}`, 204);
    held.release();
    expect(await listed).equal('connection_not_found');
    expect(api.fakes.acme_drive.liveGrants()).equal(before - 1);
  });

  it('are encrypted under a new key when they are used, and all of them by reseal', async () => {
    const newKey: EncryptionKey = { id: 'next', key: randomBytes(32) };
    const encryptingWith = (...encryptionKeys: EncryptionKey[]) =>
      createContainer({ ...api.config, encryptionKeys }, 'test');
    const keyOf = async (id: string) => String((await row(id))[0].credentials).split(':')[0];
    const [used, unused] = [await connect(api, ada, 'acme_drive'), await connect(api, ada, 'acme_onedrive')];
    const lost = await aStoredConnection(api, ada, 'Lost');
    await row(lost).update({ credentials: 'gone:AAAA' });
    const rotated = encryptingWith(newKey, ...api.config.encryptionKeys);
    await list(used.id, rotated);
    expect([await keyOf(used.id), await keyOf(unused.id)]).deep.equal(['next', '1']);
    expect(await rotated.storedConnections.reencrypt()).include({ unreadable: 1 });
    expect(await keyOf(unused.id)).equal('next');
    const later = encryptingWith(newKey);
    await list(unused.id, later);
    expect(await appErrorCode(list(used.id))).equal('credentials_unreadable');
    const shown = Object((await ada.get(`/connectors/connections/${used.id}`, 200)).body);
    expect(shown.credentials_masked).deep.equal({});
    // Later tests share the stack and expect its own key.
    const back = encryptingWith(...api.config.encryptionKeys, newKey);
    await row(lost).delete();
    await back.storedConnections.reencrypt();
    await Promise.all([rotated, later, back].map((container) => container.close()));
  });

  it('cannot be decrypted in another row', async () => {
    const [one, two] = [await connect(api, ada, 'acme_drive'), await connect(api, ada, 'acme_drive')];
    const [{ credentials }] = await row(one.id);
    await row(two.id).update({ credentials });
    expect(await appErrorCode(list(two.id))).equal('credentials_unreadable');
  });
});
