import { expect } from 'chai';
import { connectorStack, s3Fields } from '#test/support/connector-stack.ts';

const path = '/connectors/acme_s3/connections';
const keys = { accessKeyId: 'key', secretAccessKey: 'secret' };
const settings = { endpoint: 'http://127.0.0.1:1', region: 'us-east-1', bucket: 'reports', prefix: '', ...keys };

describe('a new connection to S3, before the service calls the bucket', () => {
  it('422: for an endpoint inside the network', async () => {
    const ada = await (await connectorStack()).signUp();
    for (const endpoint of ['http://127.0.0.1:1', 'http://169.254.169.254', 'http://localhost:9000', 'http://[::1]']) {
      const { body } = await ada.post(path, s3Fields({ settings }, { endpoint }), 422);
      expect(body).include({ code: 'connection_check_failed' });
    }
  });

  it('422: for wrong fields', async () => {
    const ada = await (await connectorStack()).signUp();
    const { credentials, config } = s3Fields({ settings });
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
      const { body } = await ada.post(path, { ...s3Fields({ settings }), ...wrong }, 422);
      expect(Object(body).errors[0].path).equal(field);
    }
  });
});
