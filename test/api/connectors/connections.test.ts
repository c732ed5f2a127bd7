import { expect } from 'chai';
import { auditEntries } from '#test/support/audit-entries.ts';
import { aColleague, aStoredConnection } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import {
  connectionPath as at,
  browse,
  browsesPages,
  keepsAndRemovesSchedule,
  needsReauthWhenBrowseFindsRevokedGrant,
  passesOutageAndRetryAfterToBrowser,
  reportsRevokedGrantOnRefresh,
  revokesGrantOnDelete,
  staysActiveWhenRefreshFindsOutage,
} from '#test/support/connector-provider-cases.ts';
import { type ConnectorStack, connect, connectorStack } from '#test/support/connector-stack.ts';

let api: ConnectorStack;
let ada: Member;
/** Another admin of Ada's organization. */
let grace: Member;

function signUpBefore(): void {
  before(async () => {
    api = await connectorStack();
    ada = await api.signUp();
    grace = await aColleague(api, ada, 'Grace', { is_admin: true });
    await api.container.db('organizations').where({ id: ada.orgId }).update({ tier: 'max' });
  });
}

const drive = () => ({ api, member: ada, provider: 'acme_drive' }) as const;

describe('GET /connectors/connections', () => {
  signUpBefore();

  it('200: lists the connections of the user alone, oldest first', async () => {
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
  signUpBefore();

  it('200: shows the status and the last error', async () => {
    const { id } = await connect(api, ada, 'acme_drive');
    const state = { status: 'error', lastError: 'provider_rejected: it says no' };
    await api.container.db('connections').where({ id }).update(state);
    const { body } = await ada.get(at(id), 200);
    expect(body).include({ id, status: 'error', last_error: state.lastError });
  });

  it('401: without a token', async () => {
    await api.anonymous.get(at(crypto.randomUUID()), 401);
  });

  it('404: for an unknown id, and for a connection of another user, also to an admin', async () => {
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
  signUpBefore();

  it('200: renames the connection and changes nothing else', async () => {
    const before = await connect(api, ada, 'acme_onedrive');
    const { body } = await ada.patch(at(before.id), { display_name: 'Mine' }, 200);
    expect(body).deep.equal({ ...before, display_name: 'Mine', updated_at: Object(body).updated_at });
    expect((await auditEntries(api, before.id)).at(-1)).include({ action: 'connection.changed' });
    await ada.patch(at(before.id), { display_name: 'Mine', config: {} }, 200);
    expect(await auditEntries(api, before.id)).length(2);
  });

  it('200: sets and removes the sync schedule', () => keepsAndRemovesSchedule(drive()));

  it('401: without a token', async () => {
    await api.anonymous.patch(at(crypto.randomUUID()), { display_name: 'x' }, 401);
  });

  it('404: for a connection of another user', async () => {
    const { id } = await connect(api, ada, 'acme_drive');
    expect((await grace.patch(at(id), { display_name: 'x' }, 404)).body).include({ code: 'connection_not_found' });
  });

  it('412: when the connection has changed since the ETag was read', async () => {
    const { id } = await connect(api, ada, 'acme_drive');
    const etag = (await ada.get(at(id), 200)).headers.get('etag') ?? '';
    await ada.patch(at(id), { display_name: 'One' }, 200, { 'if-match': etag });
    await ada.patch(at(id), { display_name: 'Two' }, 412, { 'if-match': etag });
  });

  it('422: for fields that cannot change and for unknown fields', async () => {
    const s3Id = await aStoredConnection(api, ada, 'Reports');
    const site = await connect(api, ada, 'acme_sharepoint');
    const credentials = { access_key_id: 'key', secret_access_key: 'secret' };
    for (const [id, change, field] of [
      [site.id, { credentials }, 'credentials'],
      [site.id, { config: { site_id: 'another,one' } }, 'config.site_id'],
      [site.id, { config: { bucket: 'some-bucket' } }, 'config.bucket'],
      [s3Id, { config: { site_id: 'a,site' } }, 'config.site_id'],
      [s3Id, { status: 'active' }, 'status'],
      [s3Id, { display_name: null }, 'display_name'],
      [s3Id, { config: { sync: { enabled: true, interval_minutes: 4 } } }, 'config.sync.interval_minutes'],
    ] as const) {
      expect(Object((await ada.patch(at(id), change, 422)).body).errors[0].path).equal(field);
    }
    await ada.patch(at(site.id), { config: { site_id: site.config.site_id } }, 200);
  });
});

describe('PATCH /connectors/connections/{connection_id}/refresh', () => {
  signUpBefore();

  it('200: sets active for a valid grant, and needs_reauth for a revoked one', () =>
    reportsRevokedGrantOnRefresh(drive()));

  it('401: without a token', async () => {
    await api.anonymous.patch(at(crypto.randomUUID(), '/refresh'), undefined, 401);
  });

  it('404: for a connection of another user', async () => {
    const { id } = await connect(api, ada, 'acme_drive');
    const { body } = await grace.patch(at(id, '/refresh'), undefined, 404);
    expect(body).include({ code: 'connection_not_found' });
  });

  it('412: when the connection has changed since the ETag was read', async () => {
    const { id } = await connect(api, ada, 'acme_drive');
    await ada.patch(at(id, '/refresh'), undefined, 412, { 'if-match': '"of-old"' });
  });

  it('501: when the provider rejects the OAuth client', async () => {
    const { id } = await connect(api, ada, 'acme_drive');
    api.fakes.acme_drive.failNext(1, { status: 401, json: { error: 'invalid_client' } });
    expect((await ada.patch(at(id, '/refresh'), undefined, 501)).body).include({ code: 'provider_not_configured' });
  });

  it('503: during a provider outage, and keeps the connection active', () =>
    staysActiveWhenRefreshFindsOutage(drive()));
});

describe('DELETE /connectors/connections/{connection_id}', () => {
  signUpBefore();

  it('204: deletes the connection and revokes its grant', () => revokesGrantOnDelete(drive()));

  it('204: keeps the grant of an account that another connection uses', async () => {
    const account = { account: 'shared@example.com' };
    const { id } = await connect(api, ada, 'acme_drive', account);
    const hers = await connect(api, grace, 'acme_drive', account);
    await ada.delete(at(id), 204);
    expect((await grace.patch(at(hers.id, '/refresh'), undefined, 200)).body).include({ status: 'active' });
  });

  it('204: also during a provider outage', async () => {
    const { id } = await connect(api, ada, 'acme_drive');
    api.fakes.acme_drive.failNext(1, { status: 500, text: 'down' });
    await ada.delete(at(id), 204);
  });

  it('401: without a token', async () => {
    await api.anonymous.delete(at(crypto.randomUUID()), 401);
  });

  it('404: for a deleted connection and for one of another user', async () => {
    const { id } = await connect(api, ada, 'acme_drive');
    expect((await grace.delete(at(id), 404)).body).include({ code: 'connection_not_found' });
    await ada.delete(at(id), 204);
    await ada.delete(at(id), 404);
  });
});

describe('POST /connectors/connections/{connection_id}/browse', () => {
  signUpBefore();

  it('200: lists folders and files page by page', () => browsesPages(drive()));

  it('200: pages through a folder of ten thousand files', async () => {
    const { tree } = api.fakes.acme_dropbox;
    const top = `large-${crypto.randomUUID().slice(0, 8)}`;
    for (let n = 0; n < 10_000; n += 1) tree.add(`${top}/${n}.txt`, '');
    const { id } = await connect(api, ada, 'acme_dropbox');
    const first = await browse(ada, id, { path: top });
    expect(first.files.length).within(1, 2_000);
    expect(first.next_page).a('string');
  });

  it('200: ends a page after three nearly empty pages of the provider, and continues on the next', async () => {
    const fake = api.fakes.acme_drive;
    const top = `sparse-${crypto.randomUUID().slice(0, 8)}`;
    for (let n = 0; n < 5; n += 1) fake.tree.add(`${top}/${n}.txt`, '');
    const { id } = await connect(api, ada, 'acme_drive');
    fake.pageSize(1);
    const first = await browse(ada, id, { path: top });
    const rest = await browse(ada, id, { path: top, page: first.next_page });
    fake.pageSize(1_000);
    expect(first.files).length(3);
    expect(rest).deep.include({ next_page: null });
    expect([...first.files, ...rest.files].map(({ name }) => name).sort()).deep.equal(
      Array.from({ length: 5 }, (_, n) => `${n}.txt`),
    );
  });

  it('200: answers another organization while two requests of one wait for the provider and a third is queued', async () => {
    const bob = await api.signUp();
    const [{ id }, ofBob] = [await connect(api, ada, 'acme_drive'), await connect(api, bob, 'acme_drive')];
    const { calls, holdNext } = api.fakes.acme_drive;
    const before = calls.length;
    const held = Array.from({ length: 2 }, holdNext);
    const browsing = Array.from({ length: 3 }, () => browse(ada, id));
    await Promise.all(held.map(({ arrived }) => arrived));
    const ofAda = calls[before]?.headers.authorization;
    await browse(bob, ofBob.id);
    const sent = calls.slice(before).filter(({ headers }) => headers.authorization === ofAda);
    for (const { release } of held) release();
    expect(sent).length(2);
    await Promise.all(browsing);
  });

  it('400: for a page token of another folder and for an invalid one', async () => {
    const { tree } = api.fakes.acme_dropbox;
    const top = `paged-${crypto.randomUUID().slice(0, 8)}`;
    for (let n = 0; n < 2_500; n += 1) tree.add(`${top}/${n}.txt`, '');
    const { id } = await connect(api, ada, 'acme_dropbox');
    const { next_page: page } = await browse(ada, id, { path: top });
    for (const wrong of [
      { path: '', page },
      { path: top, page: `${page}x` },
      { path: top, page: 'x' },
    ]) {
      expect(await browse(ada, id, wrong, 400)).include({ code: 'invalid_cursor' });
    }
  });

  it('401: without a token', async () => {
    await api.anonymous.post(at(crypto.randomUUID(), '/browse'), {}, 401);
  });

  it('404: for a missing folder, for a file, and for a connection of another user', async () => {
    api.fakes.acme_drive.tree.add('just-a-file.txt', 'x');
    const { id } = await connect(api, ada, 'acme_drive');
    for (const path of ['nowhere', 'just-a-file.txt', 'just-a-file.txt/x', '..']) {
      expect(await browse(ada, id, { path }, 404), path).include({ code: 'remote_file_not_found' });
    }
    expect((await grace.post(at(id, '/browse'), {}, 404)).body).include({ code: 'connection_not_found' });
  });

  it('409: when the grant was revoked, and marks the connection as needs_reauth', () =>
    needsReauthWhenBrowseFindsRevokedGrant(drive()));

  it('422: for wrong fields', async () => {
    const { id } = await connect(api, ada, 'acme_drive');
    expect((await browse(ada, id, { path: 7 }, 422)).errors[0].path).equal('path');
    expect((await browse(ada, id, { path: 'a\u0000b' }, 422)).errors[0].path).equal('path');
    expect((await browse(ada, id, { folder: '' }, 422)).errors[0].path).equal('folder');
  });

  it('501: when the provider rejects the OAuth client', async () => {
    const { id } = await connect(api, ada, 'acme_drive');
    api.fakes.acme_drive.expireTokens();
    await api.container
      .db('connections')
      .where({ id })
      .update({ expiresAt: new Date(0) });
    api.fakes.acme_drive.failNext(1, { status: 401, json: { error: 'invalid_client' } });
    expect(await browse(ada, id, {}, 501)).include({ code: 'provider_not_configured' });
  });

  it('502: when the provider rejects the request for another reason', async () => {
    const { id } = await connect(api, ada, 'acme_drive');
    api.fakes.acme_drive.failNext(1, { status: 418, json: { error: { errors: [{ reason: 'teapot' }] } } });
    expect(await browse(ada, id, {}, 502)).include({ code: 'provider_rejected' });
  });

  it('503: during a provider outage, and with the provider’s Retry-After when it throttles', () =>
    passesOutageAndRetryAfterToBrowser(drive()));
});
