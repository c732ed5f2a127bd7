import { PutObjectCommand } from '@aws-sdk/client-s3';
import { expect } from 'chai';
import { oauthConnectorProviders } from '#src/domain/connector-providers.ts';
import { auditEntries } from '#test/support/audit-entries.ts';
import type { Member } from '#test/support/client.ts';
import { signUpColleague } from '#test/support/colleague.ts';
import { type ConnectorStack, connect, connectorStack, s3Fields } from '#test/support/connector-stack.ts';
import { openBucket, type TestBucket } from '#test/support/s3.ts';

const at = (id: string, rest = '') => `/connectors/connections/${id}${rest}`;

let api: ConnectorStack;
let ada: Member;
/** An admin of Ada's organization. */
let grace: Member;

before(async function startUp() {
  this.timeout(120_000);
  api = await connectorStack();
  ada = await api.signUp();
  grace = await signUpColleague(api, ada, 'Grace', { is_admin: true });
  await api.container.db('organizations').where({ id: ada.orgId }).update({ tier: 'max' });
});

describe('GET /connectors/connections', () => {
  it('200: lists the own ones, oldest first, and nobody else’s', async () => {
    const bob = await api.signUp();
    const one = await connect(api, bob, 'acme_drive');
    const two = await connect(api, bob, 'acme_dropbox');
    expect((await bob.get('/connectors/connections', 200)).body).deep.equal({ items: [one, two] });
    await connect(api, grace, 'acme_drive');
    expect((await ada.get('/connectors/connections', 200)).body).deep.equal({ items: [] });
  });

  it('401: without a token', async () => {
    await api.anonymous.get('/connectors/connections', 401);
  });
});

describe('GET /connectors/connections/{connection_id}', () => {
  it('200: says what it is, and why it does not work', async () => {
    const { id } = await connect(api, ada, 'acme_drive');
    const state = { status: 'error', lastError: 'provider_rejected: it says no' };
    await api.container.db('connections').where({ id }).update(state);
    const { body } = await ada.get(at(id), 200);
    expect(body).include({ id, status: 'error', last_error: state.lastError });
  });

  it('401: without a token', async () => {
    await api.anonymous.get(at(crypto.randomUUID()), 401);
  });

  it('404: for what is not there, and for what is somebody else’s, an admin’s, too', async () => {
    const { id } = await connect(api, ada, 'acme_drive');
    for (const [who, path] of [
      [grace, at(id)],
      [await api.signUp(), at(id)],
      [ada, at(crypto.randomUUID())],
      [ada, at('no-id')],
    ] as const) {
      expect((await who.get(path, 404)).body).include({ code: 'connection_not_found' });
    }
  });
});

describe('PATCH /connectors/connections/{connection_id}', () => {
  let bucket: TestBucket;
  before(async function () {
    bucket = await openBucket(this);
  });

  const newBucketConnection = async () =>
    Object((await ada.post('/connectors/acme_s3/connections', s3Fields(bucket), 201)).body);
  const row = (id: string) => api.container.db('connections').where({ id }).first();

  it('200: renames it, and leaves all else', async () => {
    const before = await connect(api, ada, 'acme_onedrive');
    const { body } = await ada.patch(at(before.id), { display_name: 'Mine' }, 200);
    expect(body).deep.equal({ ...before, display_name: 'Mine', updated_at: Object(body).updated_at });
    expect((await auditEntries(api, before.id)).at(-1)).include({ action: 'connection.changed' });
    await ada.patch(at(before.id), { display_name: 'Mine', config: {} }, 200);
    expect(await auditEntries(api, before.id)).length(2);
  });

  it('200: takes other keys that work, and what is null away', async () => {
    const { id, config } = await newBucketConnection();
    await api.container.db('connections').where({ id }).update({ status: 'needs_reauth', lastError: 'x' });
    const { credentials } = s3Fields(bucket);
    const change = { credentials, config: { prefix: 'a/b' } };
    const { body } = await ada.patch(at(id), change, 200);
    expect(body).deep.include({ status: 'active', last_error: null, config: { ...config, prefix: 'a/b/' } });
    expect((await ada.patch(at(id), { config: { prefix: null } }, 200)).body).deep.include({ config });
  });

  it('200: keeps a schedule, of every provider, and takes it away', async () => {
    const sync = { enabled: false, cron: '0 3 * * *', folder: 'Reports', delete_missing: true };
    for (const provider of oauthConnectorProviders) {
      const { id, config } = await connect(api, ada, provider);
      expect((await ada.patch(at(id), { config: { sync } }, 200)).body).deep.include({ config: { ...config, sync } });
      expect((await ada.patch(at(id), { config: { sync: null } }, 200)).body).deep.include({ config });
    }
  });

  it('401: without a token', async () => {
    await api.anonymous.patch(at(crypto.randomUUID()), { display_name: 'x' }, 401);
  });

  it('404: for what is somebody else’s', async () => {
    const { id } = await connect(api, ada, 'acme_drive');
    expect((await grace.patch(at(id), { display_name: 'x' }, 404)).body).include({ code: 'connection_not_found' });
  });

  it('412: when it has changed since it was read', async () => {
    const { id } = await connect(api, ada, 'acme_drive');
    const etag = (await ada.get(at(id), 200)).headers.get('etag') ?? '';
    await ada.patch(at(id), { display_name: 'One' }, 200, { 'if-match': etag });
    await ada.patch(at(id), { display_name: 'Two' }, 412, { 'if-match': etag });
  });

  it('422: for keys that do not work, and what there was stays', async () => {
    const { id } = await newBucketConnection();
    const before = await row(id);
    const { credentials } = s3Fields(bucket);
    for (const change of [
      { credentials: { ...credentials, secret_access_key: 'of-somebody-else-altogether' } },
      { config: { bucket: 'no-such-bucket' } },
      { display_name: 'New', config: { endpoint: 'http://127.0.0.1:1' } },
    ]) {
      expect((await ada.patch(at(id), change, 422)).body).include({ code: 'connection_check_failed' });
    }
    expect(await row(id)).deep.equal(before);
  });

  it('422: for what does not change, and what is not known', async () => {
    const s3 = await newBucketConnection();
    const drive = await connect(api, ada, 'acme_sharepoint');
    for (const [id, change, field] of [
      [drive.id, { credentials: s3Fields(bucket).credentials }, 'credentials'],
      [drive.id, { config: { site_id: 'another,one' } }, 'config.site_id'],
      [drive.id, { config: { bucket: 'some-bucket' } }, 'config.bucket'],
      [s3.id, { config: { site_id: 'a,site' } }, 'config.site_id'],
      [s3.id, { status: 'active' }, 'status'],
      [s3.id, { display_name: null }, 'display_name'],
      [s3.id, { config: { sync: { enabled: true, interval_minutes: 4 } } }, 'config.sync.interval_minutes'],
    ] as const) {
      expect(Object((await ada.patch(at(id), change, 422)).body).errors[0].path).equal(field);
    }
    await ada.patch(at(drive.id), { config: { site_id: drive.config.site_id } }, 200);
  });
});

describe('PATCH /connectors/connections/{connection_id}/refresh', () => {
  let bucket: TestBucket;
  before(async function () {
    bucket = await openBucket(this);
  });

  for (const provider of oauthConnectorProviders) {
    it(`200: finds a grant of ${provider} in order, and one that was taken back not`, async () => {
      const fake = api.fakes[provider];
      const { id } = await connect(api, ada, provider);
      fake.expireTokens();
      await api.container.db('connections').where({ id }).update({ status: 'error', lastError: 'x' });
      expect((await ada.patch(at(id, '/refresh'), undefined, 200)).body).include({
        status: 'active',
        last_error: null,
      });
      fake.revokeGrants();
      const { body } = await ada.patch(at(id, '/refresh'), undefined, 200);
      expect(body).include({ status: 'needs_reauth' });
      expect(Object(body).last_error).match(/^needs_reauth: /);
      expect((await ada.patch(at(id, '/refresh'), undefined, 200)).body).include({ status: 'needs_reauth' });
      const actions = (await auditEntries(api, id)).map(({ action }) => action);
      expect(actions.filter((action) => action === 'connection.needs_reauth')).length(1);
    });
  }

  it('200: finds keys in order, also after they were not', async () => {
    const { id } = Object((await ada.post('/connectors/acme_s3/connections', s3Fields(bucket), 201)).body);
    await api.container.db('connections').where({ id }).update({ status: 'needs_reauth', lastError: 'x' });
    expect((await ada.patch(at(id, '/refresh'), undefined, 200)).body).include({ status: 'active', last_error: null });
  });

  it('401: without a token', async () => {
    await api.anonymous.patch(at(crypto.randomUUID(), '/refresh'), undefined, 401);
  });

  it('404: for what is somebody else’s', async () => {
    const { id } = await connect(api, ada, 'acme_drive');
    const { body } = await grace.patch(at(id, '/refresh'), undefined, 404);
    expect(body).include({ code: 'connection_not_found' });
  });

  it('412: when it has changed since it was read', async () => {
    const { id } = await connect(api, ada, 'acme_drive');
    await ada.patch(at(id, '/refresh'), undefined, 412, { 'if-match': '"of-old"' });
  });

  it('422: for a connection that is accepted and good for nothing', async () => {
    const made = Object((await ada.post('/connectors/acme_s3/connections', s3Fields(bucket), 201)).body);
    const config = { ...made.config, bucket: 'gone-by-now' };
    await api.container.db('connections').where({ id: made.id }).update({ config });
    const { body } = await ada.patch(at(made.id, '/refresh'), undefined, 422);
    expect(body).include({ code: 'connection_check_failed' });
    const after = Object((await ada.get(at(made.id), 200)).body);
    expect(after.status).equal('error');
    expect(after.last_error).match(/NoSuchBucket/);
  });

  it('501: when the provider refuses our client', async () => {
    const { id } = await connect(api, ada, 'acme_drive');
    api.fakes.acme_drive.failNext(1, { status: 401, json: { error: 'invalid_client' } });
    expect((await ada.patch(at(id, '/refresh'), undefined, 501)).body).include({ code: 'provider_not_configured' });
  });

  it('503: while the provider is away, which says nothing about the connection', async () => {
    for (const provider of oauthConnectorProviders) {
      const { id } = await connect(api, ada, provider);
      api.fakes[provider].failNext(1, { status: 500, text: 'down' });
      expect((await ada.patch(at(id, '/refresh'), undefined, 503)).body).include({ code: 'provider_unavailable' });
      expect((await ada.get(at(id), 200)).body).include({ status: 'active', last_error: null });
    }
  });
});

describe('DELETE /connectors/connections/{connection_id}', () => {
  it('204: takes it away, and the grant back where the provider lets us', async () => {
    for (const provider of oauthConnectorProviders) {
      const fake = api.fakes[provider];
      const { id } = await connect(api, ada, provider);
      const before = fake.liveGrants();
      await ada.delete(at(id), 204);
      expect(before - fake.liveGrants(), provider).equal(
        provider === 'acme_drive' || provider === 'acme_dropbox' ? 1 : 0,
      );
      await ada.get(at(id), 404);
      expect((await auditEntries(api, id)).at(-1)).include({ action: 'connection.deleted' });
    }
  });

  it('204: leaves the grant of an account that another connection lives by', async () => {
    const account = { account: 'shared@example.com' };
    const { id } = await connect(api, ada, 'acme_drive', account);
    const hers = await connect(api, grace, 'acme_drive', account);
    await ada.delete(at(id), 204);
    expect((await grace.patch(at(hers.id, '/refresh'), undefined, 200)).body).include({ status: 'active' });
  });

  it('204: also while the provider is away', async () => {
    const { id } = await connect(api, ada, 'acme_drive');
    api.fakes.acme_drive.failNext(1, { status: 500, text: 'down' });
    await ada.delete(at(id), 204);
  });

  it('401: without a token', async () => {
    await api.anonymous.delete(at(crypto.randomUUID()), 401);
  });

  it('404: for what is gone, or somebody else’s', async () => {
    const { id } = await connect(api, ada, 'acme_drive');
    expect((await grace.delete(at(id), 404)).body).include({ code: 'connection_not_found' });
    await ada.delete(at(id), 204);
    await ada.delete(at(id), 404);
  });
});

describe('POST /connectors/connections/{connection_id}/browse', () => {
  type Listed = { name: string; path: string; is_folder: boolean; size_bytes: number };

  const browse = async (id: string, fields: object = {}, status = 200) =>
    Object((await ada.post(at(id, '/browse'), fields, status)).body);
  /** Every page. */
  async function browseAll(id: string, path: string): Promise<Listed[]> {
    const all: Listed[] = [];
    for (let page: string | null = null; ; ) {
      const found = await browse(id, { path, ...(page !== null && { page }) });
      expect(found.path).equal(path);
      all.push(...found.files);
      page = found.next_page;
      if (page === null) return all;
    }
  }

  for (const provider of oauthConnectorProviders) {
    it(`200: shows the folders and files of ${provider}, page by page`, async () => {
      const { tree } = api.fakes[provider];
      const top = `browse-${crypto.randomUUID().slice(0, 8)}`;
      tree.add(`${top}/a.txt`, 'hello');
      tree.add(`${top}/deep/er/b.txt`, 'deep');
      for (let n = 0; n < 7; n += 1) tree.add(`${top}/many/${n}.txt`, String(n));
      const { id } = await connect(api, ada, provider);
      const root = await browseAll(id, '');
      expect(root.find(({ name }) => name === top)).include({ path: top, is_folder: true, size_bytes: 0 });
      const found = await browseAll(id, top);
      expect(found.map(({ path, is_folder }) => [path, is_folder]).toSorted()).deep.equal([
        [`${top}/a.txt`, false],
        [`${top}/deep`, true],
        [`${top}/many`, true],
      ]);
      expect(found.find(({ name }) => name === 'a.txt')?.size_bytes).equal(5);
      expect(await browseAll(id, `${top}/many`)).length(7);
      expect((await browseAll(id, `${top}/deep/er`)).map(({ name }) => name)).deep.equal(['b.txt']);
    });
  }

  it('200: shows the folders and files of a bucket', async function () {
    const bucket = await openBucket(this);
    for (const Key of ['in/a.txt', 'in/sub/b.txt', 'out.txt']) {
      await bucket.client.send(new PutObjectCommand({ Bucket: bucket.settings.bucket, Key, Body: 'hello' }));
    }
    const fields = s3Fields(bucket, { prefix: 'in' });
    const { id } = Object((await ada.post('/connectors/acme_s3/connections', fields, 201)).body);
    const found = await browseAll(id, '');
    expect(found.map(({ path, is_folder, size_bytes }) => [path, is_folder, size_bytes])).deep.equal([
      ['sub', true, 0],
      ['a.txt', false, 5],
    ]);
    expect((await browseAll(id, 'sub')).map(({ path }) => path)).deep.equal(['sub/b.txt']);
    await browse(id, { path: 'in' }, 404);
  });

  it('200: shows ten thousand files by some pages at a time', async () => {
    const { tree } = api.fakes.acme_dropbox;
    const top = `large-${crypto.randomUUID().slice(0, 8)}`;
    for (let n = 0; n < 10_000; n += 1) tree.add(`${top}/${n}.txt`, '');
    const { id } = await connect(api, ada, 'acme_dropbox');
    const first = await browse(id, { path: top });
    expect(first.files.length).within(1, 2_000);
    expect(first.next_page).a('string');
  });

  it('400: for a page of another folder, and one that nobody has given', async () => {
    const { tree } = api.fakes.acme_dropbox;
    const top = `paged-${crypto.randomUUID().slice(0, 8)}`;
    for (let n = 0; n < 2_500; n += 1) tree.add(`${top}/${n}.txt`, '');
    const { id } = await connect(api, ada, 'acme_dropbox');
    const { next_page: page } = await browse(id, { path: top });
    for (const wrong of [
      { path: '', page },
      { path: top, page: `${page}x` },
      { path: top, page: 'x' },
    ]) {
      expect(await browse(id, wrong, 400)).include({ code: 'invalid_cursor' });
    }
  });

  it('401: without a token', async () => {
    await api.anonymous.post(at(crypto.randomUUID(), '/browse'), {}, 401);
  });

  it('404: for a folder that is not there, a file, and a connection of somebody else', async () => {
    api.fakes.acme_drive.tree.add('just-a-file.txt', 'x');
    const { id } = await connect(api, ada, 'acme_drive');
    for (const path of ['nowhere', 'just-a-file.txt', 'just-a-file.txt/x', '..']) {
      expect(await browse(id, { path }, 404), path).include({ code: 'remote_file_not_found' });
    }
    expect((await grace.post(at(id, '/browse'), {}, 404)).body).include({ code: 'connection_not_found' });
  });

  it('409: once the grant was taken back, from then on in the status, too', async () => {
    for (const provider of oauthConnectorProviders) {
      const { id } = await connect(api, ada, provider);
      api.fakes[provider].revokeGrants();
      expect(await browse(id, {}, 409)).include({ code: 'needs_reauth' });
      expect((await ada.get(at(id), 200)).body).include({ status: 'needs_reauth' });
    }
  });

  it('422: for wrong fields', async () => {
    const { id } = await connect(api, ada, 'acme_drive');
    expect((await browse(id, { path: 7 }, 422)).errors[0].path).equal('path');
    expect((await browse(id, { path: 'a\u0000b' }, 422)).errors[0].path).equal('path');
    expect((await browse(id, { folder: '' }, 422)).errors[0].path).equal('folder');
  });

  it('501: when the provider refuses our client', async () => {
    const { id } = await connect(api, ada, 'acme_drive');
    api.fakes.acme_drive.expireTokens();
    await api.container
      .db('connections')
      .where({ id })
      .update({ expiresAt: new Date(0) });
    api.fakes.acme_drive.failNext(1, { status: 401, json: { error: 'invalid_client' } });
    expect(await browse(id, {}, 501)).include({ code: 'provider_not_configured' });
  });

  it('502: when the provider refuses in another way', async () => {
    const { id } = await connect(api, ada, 'acme_drive');
    api.fakes.acme_drive.failNext(1, { status: 418, json: { error: { errors: [{ reason: 'teapot' }] } } });
    expect(await browse(id, {}, 502)).include({ code: 'provider_rejected' });
  });

  it('503: while the provider is away, and where it asks for a pause, of what length', async () => {
    for (const provider of oauthConnectorProviders) {
      const { id } = await connect(api, ada, provider);
      api.fakes[provider].failNext(1, { status: 500, text: 'down' });
      expect(await browse(id, {}, 503)).include({ code: 'provider_unavailable' });
      api.fakes[provider].failNext(1, { status: 429, headers: { 'retry-after': '7' }, text: 'slowly' });
      const { body, headers } = await ada.post(at(id, '/browse'), {}, 503);
      expect(body).include({ code: 'provider_throttled' });
      expect(headers.get('retry-after')).equal('7');
    }
  });
});
