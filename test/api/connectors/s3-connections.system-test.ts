import { DeleteObjectCommand, PutObjectCommand } from '@aws-sdk/client-s3';
import { expect } from 'chai';
import type { Member } from '#test/support/client.ts';
import { itHoldsTheLimit, post } from '#test/support/concurrent-requests.ts';
import { type ConnectorStack, s3Fields } from '#test/support/connector-stack.ts';
import {
  browse,
  browseAll,
  connectionPath,
  documentCalled,
  importStack,
  noChanges,
  shelf,
  sync,
  untilIngested,
} from '#test/support/import-stack.ts';
import { openBucket, type TestBucket } from '#test/support/s3.ts';
import { auditEntries } from '#test/support/stored-rows.ts';

const path = '/connectors/acme_s3/connections';

describe('a connection to S3', () => {
  let api: ConnectorStack;
  let ada: Member;
  let bucket: TestBucket;
  beforeEach(async function () {
    bucket = await openBucket(this);
    api = await importStack();
    ada = await api.signUp();
  });

  const create = async (config: object = {}) => Object((await ada.post(path, s3Fields(bucket, config), 201)).body);
  const read = async (id: string) => Object((await ada.get(connectionPath(id), 200)).body);
  const row = (id: string) => api.container.db('connections').where({ id });
  const put = async (...keys: string[]) => {
    for (const Key of keys) {
      await bucket.client.send(new PutObjectCommand({ Bucket: bucket.settings.bucket, Key, Body: `Text of ${Key}.` }));
    }
  };

  it('is created with valid keys, which responses mask', async () => {
    const made = await create({ prefix: '/reports//2026/', region: 'us-east-1' });
    const { endpoint, bucket: name } = bucket.settings;
    expect(made).deep.include({
      ...{ provider: 'acme_s3', display_name: 'Reports', status: 'active', last_error: null, user_id: ada.userId },
      credentials_masked: { access_key_id: '****', secret_access_key: 'te****hing' },
      config: { bucket: name, endpoint, prefix: 'reports/2026/', region: 'us-east-1' },
    });
    expect(await read(made.id)).deep.equal(made);
    expect((await row(made.id).first()).credentials).match(/^1:/);
    const [entry] = await auditEntries(api, made.id);
    expect(entry).deep.include({ actorId: ada.userId, action: 'connection.created' });
  });

  it('is not created (422) with wrong keys or for a missing bucket, and the error shows no keys', async () => {
    const secret = 'another-secret-of-nothing';
    const { credentials } = s3Fields(bucket);
    for (const [wrong, reason] of [
      [{ credentials: { ...credentials, secret_access_key: secret } }, /SignatureDoesNotMatch/],
      [{ credentials: { ...credentials, access_key_id: 'a-key-that-is-unknown' } }, /InvalidAccessKeyId/],
      [s3Fields(bucket, { bucket: 'no-such-bucket' }), /NoSuchBucket/],
    ] as const) {
      const { body } = await ada.post(path, { ...s3Fields(bucket), ...wrong }, 422);
      expect(body).include({ code: 'connection_check_failed' });
      expect(Object(body).detail).match(reason);
      expect(JSON.stringify(body)).not.contain(secret).and.not.contain('a-key-that-is-unknown');
    }
  });

  it('is active again with new valid keys or after a refresh, and drops a field that is set to null', async () => {
    const { id, config } = await create();
    const needConsent = () => row(id).update({ status: 'needs_reauth', lastError: 'x' });
    await needConsent();
    const change = { credentials: s3Fields(bucket).credentials, config: { prefix: 'a/b' } };
    const { body } = await ada.patch(connectionPath(id), change, 200);
    expect(body).deep.include({ status: 'active', last_error: null, config: { ...config, prefix: 'a/b/' } });
    const cleared = await ada.patch(connectionPath(id), { config: { prefix: null } }, 200);
    expect(cleared.body).deep.include({ config });
    await needConsent();
    const refreshed = await ada.patch(connectionPath(id, '/refresh'), undefined, 200);
    expect(refreshed.body).include({ status: 'active', last_error: null });
  });

  it('rejects keys, bucket or endpoint that do not work (422), and keeps the error of the last refresh', async () => {
    const { id, config } = await create();
    const before = await row(id);
    const credentials = { ...s3Fields(bucket).credentials, secret_access_key: 'of-another-user-altogether' };
    for (const change of [
      { credentials },
      { config: { bucket: 'no-such-bucket' } },
      { display_name: 'New', config: { endpoint: 'http://127.0.0.1:1' } },
    ]) {
      const { body } = await ada.patch(connectionPath(id), change, 422);
      expect(body).include({ code: 'connection_check_failed' });
    }
    expect(await row(id)).deep.equal(before);
    await row(id).update({ config: { ...config, bucket: 'gone-by-now' } });
    await ada.patch(connectionPath(id, '/refresh'), undefined, 422);
    const after = await read(id);
    expect(after.status).equal('error');
    expect(after.last_error).match(/NoSuchBucket/);
  });

  it('shows the folders and files of the bucket, and mirrors changes by listing all of them in each sync', async () => {
    await put('in/a.txt', 'in/b.txt', 'in/sub/c.txt', 'in/d.txt', 'out/x.txt');
    const { id } = await create({ prefix: 'in', sync: { enabled: false, delete_missing: true, interval_minutes: 60 } });
    const found = await browseAll(ada, id, '');
    expect(found.map((file) => [file.path, file.is_folder])).deep.equal([
      ['sub', true],
      ['a.txt', false],
      ['b.txt', false],
      ['d.txt', false],
    ]);
    expect((await browseAll(ada, id, 'sub')).map((file) => file.path)).deep.equal(['sub/c.txt']);
    await browse(ada, id, { path: 'in' }, 404);
    expect(await sync(ada, id)).include({ mode: 'full', ...noChanges, added: 4 });
    expect(await sync(ada, id)).include({ ...noChanges, unchanged: 4 });
    const edited = { Bucket: bucket.settings.bucket, Key: 'in/a.txt', Body: 'Edited.' };
    await bucket.client.send(new PutObjectCommand(edited));
    for (const Key of ['in/b.txt', 'in/d.txt']) {
      await bucket.client.send(new DeleteObjectCommand({ Bucket: bucket.settings.bucket, Key }));
    }
    await put('in/renamed.txt');
    const third = await sync(ada, id);
    expect(third).include({ mode: 'full', ...noChanges, added: 1, updated: 1, unchanged: 1, deleted: 2 });
    expect(await shelf(ada)).deep.equal(['a.txt', 'renamed.txt', 'sub/c.txt']);
    await untilIngested(ada);
    const { id: documentId } = await documentCalled(ada, 'a.txt');
    expect((await ada.get(`/documents/${documentId}`, 200)).body).include({ content: 'Edited.' });
  });

  // 409: the keys work, so the limit is the only reason to refuse.
  itHoldsTheLimit('connection_limit_reached', async (member) => () => post(member, path, s3Fields(bucket)));
});
