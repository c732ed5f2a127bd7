import { expect } from 'chai';
import { auditEntries } from '#test/support/audit-entries.ts';
import type { Member } from '#test/support/client.ts';
import { type ConnectorStack, connectorStack, s3Fields } from '#test/support/connector-stack.ts';
import { itHoldsTheLimit, post } from '#test/support/exact-limit.ts';
import { openBucket, type TestBucket } from '#test/support/s3.ts';

const path = '/connectors/acme_s3/connections';

describe('POST /connectors/acme_s3/connections', () => {
  let api: ConnectorStack;
  let ada: Member;
  let bucket: TestBucket;
  before(async function () {
    bucket = await openBucket(this);
    api = await connectorStack();
    ada = await api.signUp();
    await api.container.db('organizations').where({ id: ada.orgId }).update({ tier: 'max' });
  });

  it('201: connects to a bucket by keys that work, and shows of them what tells them apart', async () => {
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

  it('201: the same answer for the same Idempotency-Key, and two connections without one', async () => {
    const key = { 'idempotency-key': crypto.randomUUID() };
    const one = Object((await ada.post(path, s3Fields(bucket), 201, key)).body);
    expect((await ada.post(path, s3Fields(bucket), 201, key)).body).deep.equal(one);
    expect(Object((await ada.post(path, s3Fields(bucket), 201)).body).id).not.equal(one.id);
  });

  it('401: without a token', async () => {
    await api.anonymous.post(path, s3Fields(bucket), 401);
  });

  it('422: for what the store refuses, in its words and without the keys', async () => {
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

  it('422: for an endpoint inside the network, whatever is there', async () => {
    for (const endpoint of ['http://127.0.0.1:1', 'http://169.254.169.254', 'http://localhost:9000', 'http://[::1]']) {
      const { body } = await ada.post(path, s3Fields(bucket, { endpoint }), 422);
      expect(body).include({ code: 'connection_check_failed' });
    }
  });

  it('422: for wrong fields', async () => {
    const { credentials, config } = s3Fields(bucket);
    for (const [wrong, field] of [
      [{ display_name: ' ' }, 'display_name'],
      [{ credentials: {} }, 'credentials.access_key_id'],
      [{ credentials: { ...credentials, secret_access_key: 'two words' } }, 'credentials.secret_access_key'],
      [{ credentials: { ...credentials, password: 'x' } }, 'credentials.password'],
      [{ config: {} }, 'config.bucket'],
      [{ config: { ...config, bucket: '../x' } }, 'config.bucket'],
      [{ config: { ...config, endpoint: 'http://user:pass@host' } }, 'config.endpoint'],
      [{ config: { ...config, endpoint: 'ftp://host' } }, 'config.endpoint'],
      [{ config: { ...config, sync: { enabled: true } } }, 'config.sync'],
      [{ config: { ...config, sync: { enabled: true, interval_minutes: 1 } } }, 'config.sync.interval_minutes'],
      [{ status: 'active' }, 'status'],
    ] as const) {
      const { body } = await ada.post(path, { ...s3Fields(bucket), ...wrong }, 422);
      expect(Object(body).errors[0].path).equal(field);
    }
  });

  // 409: keys that work, so that only the places are missing.
  itHoldsTheLimit('connection_limit_reached', async (member) => () => post(member, path, s3Fields(bucket)));
});
