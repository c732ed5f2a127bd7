import { expect } from 'chai';
import { aColleague, aStoredConnection } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type ConnectorStack, connect, connectorStack, s3Fields } from '#test/support/connector-stack.ts';
import { connectionPath as at, browse } from '#test/support/import-stack.ts';
import { auditEntries } from '#test/support/stored-rows.ts';

describe('connections to file providers', () => {
  let api: ConnectorStack;
  let ada: Member;
  before(async () => {
    api = await connectorStack();
    ada = await api.signUp();
    await api.container.db('organizations').where({ id: ada.orgId }).update({ tier: 'max' });
  });

  const newId = async (): Promise<string> => (await connect(api, ada, 'acme_drive')).id;
  const row = (id: string) => api.container.db('connections').where({ id });
  const newFolder = (provider: 'acme_drive' | 'acme_dropbox', files: number) => {
    const top = `folder-${crypto.randomUUID().slice(0, 8)}`;
    for (let n = 0; n < files; n += 1) api.fakes[provider].tree.add(`${top}/${n}.txt`, '');
    return top;
  };

  it('are listed oldest first, with status and last error, to their owner only', async () => {
    const bob = await api.signUp();
    const [one, two] = [await connect(api, bob, 'acme_drive'), await connect(api, bob, 'acme_dropbox')];
    expect((await bob.get('/connectors/connections', 200)).body).deep.equal({ items: [one, two] });
    expect((await ada.get('/connectors/connections', 200)).body).deep.equal({ items: [] });
    await row(one.id).update({ status: 'error', lastError: 'provider_rejected: it says no' });
    const { body } = await bob.get(at(one.id), 200);
    expect(body).include({ status: 'error', last_error: 'provider_rejected: it says no' });
  });

  it('can be renamed, which changes nothing else and is audited once', async () => {
    const before = await connect(api, ada, 'acme_onedrive');
    const { body } = await ada.patch(at(before.id), { display_name: 'Mine' }, 200);
    expect(body).deep.equal({ ...before, display_name: 'Mine', updated_at: Object(body).updated_at });
    expect((await auditEntries(api, before.id)).at(-1)).include({ action: 'connection.changed' });
    await ada.patch(at(before.id), { display_name: 'Mine', config: {} }, 200);
    expect(await auditEntries(api, before.id)).length(2);
  });

  it('reject a change of a field that identifies the connection or that its provider does not have (422)', async () => {
    const s3Id = await aStoredConnection(api, ada, 'Reports');
    const site = await connect(api, ada, 'acme_sharepoint');
    for (const [id, change, field] of [
      [site.id, { credentials: { access_key_id: 'key', secret_access_key: 'secret' } }, 'credentials'],
      [site.id, { config: { site_id: 'another,one' } }, 'config.site_id'],
      [site.id, { config: { bucket: 'some-bucket' } }, 'config.bucket'],
      [s3Id, { config: { site_id: 'a,site' } }, 'config.site_id'],
      [s3Id, { display_name: null }, 'display_name'],
    ] as const) {
      expect(Object((await ada.patch(at(id), change, 422)).body).errors[0].path).equal(field);
    }
    await ada.patch(at(site.id), { config: { site_id: site.config.site_id } }, 200);
  });

  it('are not made to an S3 endpoint inside the network of the API (422)', async () => {
    const keys = { accessKeyId: 'key', secretAccessKey: 'secret' };
    const settings = { endpoint: '', region: 'us-east-1', bucket: 'reports', prefix: '', ...keys };
    for (const endpoint of ['http://127.0.0.1:1', 'http://169.254.169.254', 'http://localhost:9000', 'http://[::1]']) {
      const { body } = await ada.post('/connectors/acme_s3/connections', s3Fields({ settings }, { endpoint }), 422);
      expect(body).include({ code: 'connection_check_failed' });
    }
  });

  it('stay active when the provider is down (503), rejects a request (502) or does not know the OAuth client (501)', async () => {
    const id = await newId();
    const { failNext, expireTokens } = api.fakes.acme_drive;
    const down = { status: 500, text: 'down' };
    const unknownClient = { status: 401, json: { error: 'invalid_client' } };
    failNext(1, down);
    expect((await ada.patch(at(id, '/refresh'), undefined, 503)).body).include({ code: 'provider_unavailable' });
    failNext(1, unknownClient);
    expect((await ada.patch(at(id, '/refresh'), undefined, 501)).body).include({ code: 'provider_not_configured' });
    for (const [reply, status, code, retryAfter] of [
      [down, 503, 'provider_unavailable', null],
      [{ status: 429, headers: { 'retry-after': '7' }, text: 'slowly' }, 503, 'provider_throttled', '7'],
      [{ status: 418, json: { error: { errors: [{ reason: 'teapot' }] } } }, 502, 'provider_rejected', null],
    ] as const) {
      failNext(1, reply);
      const { body, headers } = await ada.post(at(id, '/browse'), {}, status);
      expect(body).include({ code });
      if (retryAfter !== null) expect(headers.get('retry-after')).equal(retryAfter);
    }
    expect((await ada.get(at(id), 200)).body).include({ status: 'active', last_error: null });
    expireTokens();
    await row(id).update({ expiresAt: new Date(0) });
    failNext(1, unknownClient);
    expect(await browse(ada, id, {}, 501)).include({ code: 'provider_not_configured' });
  });

  it('are deleted even during an outage of the provider; deleting one again answers 404', async () => {
    const id = await newId();
    api.fakes.acme_drive.failNext(1, { status: 500, text: 'down' });
    await ada.delete(at(id), 204);
    await ada.delete(at(id), 404);
  });

  it('are deleted without revoking the grant of an account that another connection uses', async () => {
    const account = { account: 'shared@example.com' };
    const grace = await aColleague(api, ada, 'Grace');
    const { id } = await connect(api, ada, 'acme_drive', account);
    const hers = await connect(api, grace, 'acme_drive', account);
    await ada.delete(at(id), 204);
    expect((await grace.patch(at(hers.id, '/refresh'), undefined, 200)).body).include({ status: 'active' });
  });

  it('that are deleted keep no credentials: new ones that arrive afterwards are revoked', async () => {
    const id = await newId();
    const { liveGrants, holdNext, failNext } = api.fakes.acme_drive;
    const before = liveGrants();
    await row(id).update({ expiresAt: new Date(0) });
    const held = holdNext();
    const browsed = browse(ada, id, {}, 404);
    await held.arrived;
    // The revocation of the old credentials fails.
    failNext(1, { status: 503 });
    await ada.delete(at(id), 204);
    held.release();
    expect(await browsed).include({ code: 'connection_not_found' });
    expect(liveGrants()).equal(before - 1);
  });

  describe('that are browsed', () => {
    it('return one provider page of a large folder at a time, and join up to three nearly empty pages', async () => {
      const large = newFolder('acme_dropbox', 10_000);
      const first = await browse(ada, (await connect(api, ada, 'acme_dropbox')).id, { path: large });
      expect(first.files.length).within(1, 2_000);
      expect(first.next_page).a('string');
      const [sparse, id] = [newFolder('acme_drive', 5), await newId()];
      api.fakes.acme_drive.pageSize(1);
      const some = await browse(ada, id, { path: sparse });
      const rest = await browse(ada, id, { path: sparse, page: some.next_page });
      api.fakes.acme_drive.pageSize(1_000);
      expect([some.files.length, rest.files.length, rest.next_page]).deep.equal([3, 2, null]);
      expect(new Set([...some.files, ...rest.files].map(({ name }) => name)).size).equal(5);
    });

    it('reject an invalid page token and the page token of another folder (400)', async () => {
      const path = newFolder('acme_dropbox', 2_500);
      const { id } = await connect(api, ada, 'acme_dropbox');
      const { next_page: page } = await browse(ada, id, { path });
      for (const wrong of [
        { path: '', page },
        { path, page: `${page}x` },
        { path, page: 'x' },
      ]) {
        expect(await browse(ada, id, wrong, 400)).include({ code: 'invalid_cursor' });
      }
    });

    it('answer 404 for a path that is missing, that is a file or that leads above the root', async () => {
      api.fakes.acme_drive.tree.add('just-a-file.txt', 'x');
      const id = await newId();
      for (const path of ['nowhere', 'just-a-file.txt', 'just-a-file.txt/x', '..']) {
        expect(await browse(ada, id, { path }, 404), path).include({ code: 'remote_file_not_found' });
      }
    });

    it('answer 409 and need a new consent when their grant was revoked', async () => {
      const id = await newId();
      api.fakes.acme_drive.revokeGrants();
      expect(await browse(ada, id, {}, 409)).include({ code: 'needs_reauth' });
      expect((await ada.get(at(id), 200)).body).include({ status: 'needs_reauth' });
    });
  });
});
