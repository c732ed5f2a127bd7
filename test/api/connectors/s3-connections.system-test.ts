import { PutObjectCommand } from '@aws-sdk/client-s3';
import { expect } from 'chai';
import { auditEntries } from '#test/support/audit-entries.ts';
import type { Member } from '#test/support/client.ts';
import { browse, browseAll, connectionPath } from '#test/support/connector-provider-cases.ts';
import { type ConnectorStack, connectorStack, s3Fields } from '#test/support/connector-stack.ts';
import { itHoldsTheLimit, post } from '#test/support/exact-limit.ts';
import { openBucket, type TestBucket } from '#test/support/s3.ts';

const path = '/connectors/acme_s3/connections';

let api: ConnectorStack;
let ada: Member;
let bucket: TestBucket;

const openStack = async (test: Mocha.Context) => {
  bucket = await openBucket(test);
  api = await connectorStack();
  ada = await api.signUp();
  await api.container.db('organizations').where({ id: ada.orgId }).update({ tier: 'max' });
};

const newConnection = async (config: object = {}) => Object((await ada.post(path, s3Fields(bucket, config), 201)).body);
const row = (id: string) => api.container.db('connections').where({ id }).first();

describe('POST /connectors/acme_s3/connections', () => {
  before(function () {
    return openStack(this);
  });

  it('201: creates a connection with valid keys, and shows them masked', async () => {
    const fields = s3Fields(bucket, { prefix: '/reports//2026/', region: 'us-east-1' });
    const { body } = await ada.post(path, fields, 201);
    const { endpoint, bucket: name } = bucket.settings;
    expect(body).deep.include({
      provider: 'acme_s3',
      display_name: 'Reports',
      status: 'active',
      last_error: null,
      user_id: ada.userId,
      credentials_masked: { access_key_id: '****', secret_access_key: 'te****hing' },
      config: { bucket: name, endpoint, prefix: 'reports/2026/', region: 'us-east-1' },
    });
    const { id } = Object(body);
    expect((await ada.get(`/connectors/connections/${id}`, 200)).body).deep.equal(body);
    const row = await api.container.db('connections').where({ id }).first();
    expect(row.credentials).match(/^1:/);
    const [entry] = await auditEntries(api, id);
    expect(entry).deep.include({ actorId: ada.userId, action: 'connection.created' });
  });

  it('201: the same connection for the same Idempotency-Key, and a new one without it', async () => {
    const key = { 'idempotency-key': crypto.randomUUID() };
    const one = Object((await ada.post(path, s3Fields(bucket), 201, key)).body);
    expect((await ada.post(path, s3Fields(bucket), 201, key)).body).deep.equal(one);
    expect(Object((await ada.post(path, s3Fields(bucket), 201)).body).id).not.equal(one.id);
  });

  it('401: without a token', async () => {
    await api.anonymous.post(path, s3Fields(bucket), 401);
  });

  it('422: for wrong keys and a missing bucket, with the error of S3 and without the keys', async () => {
    const secret = 'another-secret-of-nothing';
    const { credentials } = s3Fields(bucket);
    const cases = [
      [{ credentials: { ...credentials, secret_access_key: secret } }, /SignatureDoesNotMatch/],
      [{ credentials: { ...credentials, access_key_id: 'nobody-that-is-there' } }, /InvalidAccessKeyId/],
      [s3Fields(bucket, { bucket: 'no-such-bucket' }), /NoSuchBucket/],
    ] as const;
    for (const [wrong, reason] of cases) {
      const { body } = await ada.post(path, { ...s3Fields(bucket), ...wrong }, 422);
      expect(body).include({ code: 'connection_check_failed' });
      expect(Object(body).detail).match(reason);
      expect(JSON.stringify(body)).not.contain(secret).and.not.contain('nobody-that-is-there');
    }
  });

  // 409: the keys work, so the limit is the only reason to refuse.
  itHoldsTheLimit('connection_limit_reached', async (member) => () => post(member, path, s3Fields(bucket)));
});

describe('a connection to S3', () => {
  before(function () {
    return openStack(this);
  });

  it('is reactivated by new keys that work, and drops an optional field that is set to null', async () => {
    const { id, config } = await newConnection();
    await api.container.db('connections').where({ id }).update({ status: 'needs_reauth', lastError: 'x' });
    const { credentials } = s3Fields(bucket);
    const change = { credentials, config: { prefix: 'a/b' } };
    const { body } = await ada.patch(connectionPath(id), change, 200);
    expect(body).deep.include({ status: 'active', last_error: null, config: { ...config, prefix: 'a/b/' } });
    const cleared = await ada.patch(connectionPath(id), { config: { prefix: null } }, 200);
    expect(cleared.body).deep.include({ config });
  });

  it('does not change when the new keys, bucket or endpoint do not work', async () => {
    const { id } = await newConnection();
    const before = await row(id);
    const { credentials } = s3Fields(bucket);
    for (const change of [
      { credentials: { ...credentials, secret_access_key: 'of-somebody-else-altogether' } },
      { config: { bucket: 'no-such-bucket' } },
      { display_name: 'New', config: { endpoint: 'http://127.0.0.1:1' } },
    ]) {
      const { body } = await ada.patch(connectionPath(id), change, 422);
      expect(body).include({ code: 'connection_check_failed' });
    }
    expect(await row(id)).deep.equal(before);
  });

  it('is active again after a refresh that finds its keys valid', async () => {
    const { id } = await newConnection();
    await api.container.db('connections').where({ id }).update({ status: 'needs_reauth', lastError: 'x' });
    const { body } = await ada.patch(connectionPath(id, '/refresh'), undefined, 200);
    expect(body).include({ status: 'active', last_error: null });
  });

  it('keeps the error of a refresh that finds its bucket missing', async () => {
    const made = await newConnection();
    const config = { ...made.config, bucket: 'gone-by-now' };
    await api.container.db('connections').where({ id: made.id }).update({ config });
    const { body } = await ada.patch(connectionPath(made.id, '/refresh'), undefined, 422);
    expect(body).include({ code: 'connection_check_failed' });
    const after = Object((await ada.get(connectionPath(made.id), 200)).body);
    expect(after.status).equal('error');
    expect(after.last_error).match(/NoSuchBucket/);
  });

  it('200: shows the folders and files of a bucket', async () => {
    for (const Key of ['in/a.txt', 'in/sub/b.txt', 'out.txt']) {
      await bucket.client.send(new PutObjectCommand({ Bucket: bucket.settings.bucket, Key, Body: 'hello' }));
    }
    const { id } = await newConnection({ prefix: 'in' });
    const found = await browseAll(ada, id, '');
    expect(found.map(({ path, is_folder, size_bytes }) => [path, is_folder, size_bytes])).deep.equal([
      ['sub', true, 0],
      ['a.txt', false, 5],
    ]);
    expect((await browseAll(ada, id, 'sub')).map(({ path }) => path)).deep.equal(['sub/b.txt']);
    await browse(ada, id, { path: 'in' }, 404);
  });
});
