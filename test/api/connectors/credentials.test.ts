import { randomBytes } from 'node:crypto';
import { expect } from 'chai';
import { createContainer } from '#src/container.ts';
import { oauthConnectorProviders } from '#src/domain/connector-providers.ts';
import type { EncryptionKey } from '#src/encryption-keys.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import type { Member } from '#test/support/client.ts';
import { type ConnectorStack, connect, connectorStack } from '#test/support/connector-stack.ts';
import { storeConnection } from '#test/support/stored-connection.ts';

describe('credentials of connections', () => {
  let api: ConnectorStack;
  let ada: Member;
  before(async () => {
    api = await connectorStack();
    ada = await api.signUp();
    await api.container.db('organizations').where({ id: ada.orgId }).update({ tier: 'max' });
  });

  const row = (id: string) => api.container.db('connections').where({ id });
  const list = (id: string, { connectorCredentials } = api.container) =>
    connectorCredentials.use({ orgId: ada.orgId, connectionId: id, requestId: 'r' }, (access, connector) =>
      connector.list(access, { path: '' }, null),
    );

  for (const provider of oauthConnectorProviders) {
    it(`of ${provider} are renewed once for all who need them at the same time`, async () => {
      const { calls } = api.fakes[provider];
      const { id } = await connect(api, ada, provider);
      for (const _ of [1, 2]) {
        await row(id).update({ expiresAt: new Date(0) });
        const before = calls.filter(({ url }) => url.pathname.endsWith('/token')).length;
        await Promise.all(Array.from({ length: 10 }, () => list(id)));
        expect(calls.filter(({ url }) => url.pathname.endsWith('/token')).length).equal(before + 1);
      }
      expect((await row(id))[0]).include({ status: 'active', generation: 3 });
    });
  }

  it('are over when the grant is, and nobody asks the provider again until it is given anew', async () => {
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

  it('that came for a connection which was taken away meanwhile are given back', async () => {
    const { id } = await connect(api, ada, 'acme_drive');
    const before = api.fakes.acme_drive.liveGrants();
    await row(id).update({ expiresAt: new Date(0) });
    const held = api.fakes.acme_drive.holdNext();
    const listed = appErrorCode(list(id));
    await held.arrived;
    // The provider did not hear that the old ones are not wanted any more.
    api.fakes.acme_drive.failNext(1, { status: 503 });
    await ada.delete(`/connectors/connections/${id}`, 204);
    held.release();
    expect(await listed).equal('connection_not_found');
    expect(api.fakes.acme_drive.liveGrants()).equal(before - 1);
  });

  it('are sealed anew under another encryption key: each with its use, and all by one command', async () => {
    const newKey: EncryptionKey = { id: 'next', key: randomBytes(32) };
    const sealingBy = (...encryptionKeys: EncryptionKey[]) =>
      createContainer({ ...api.config, encryptionKeys }, 'test');
    const keyOf = async (id: string) => String((await row(id))[0].credentials).split(':')[0];
    const [used, unused] = [await connect(api, ada, 'acme_drive'), await connect(api, ada, 'acme_onedrive')];
    const lost = await storeConnection(api, ada, 'Lost');
    await row(lost).update({ credentials: 'gone:AAAA' });
    const rotated = sealingBy(newKey, ...api.config.encryptionKeys);
    await list(used.id, rotated);
    expect([await keyOf(used.id), await keyOf(unused.id)]).deep.equal(['next', '1']);
    expect(await rotated.storedConnections.reseal()).include({ unreadable: 1 });
    expect(await keyOf(unused.id)).equal('next');
    const later = sealingBy(newKey);
    await list(unused.id, later);
    expect(await appErrorCode(list(used.id))).equal('credentials_unreadable');
    const shown = Object((await ada.get(`/connectors/connections/${used.id}`, 200)).body);
    expect(shown.credentials_masked).deep.equal({});
    // Back, for the tests that come after.
    const back = sealingBy(...api.config.encryptionKeys, newKey);
    await row(lost).delete();
    await back.storedConnections.reseal();
    await Promise.all([rotated, later, back].map((container) => container.close()));
  });

  it('are of no use in another row', async () => {
    const [one, two] = [await connect(api, ada, 'acme_drive'), await connect(api, ada, 'acme_drive')];
    const [{ credentials }] = await row(one.id);
    await row(two.id).update({ credentials });
    expect(await appErrorCode(list(two.id))).equal('credentials_unreadable');
  });
});
