import { rm } from 'node:fs/promises';
import { NativeConnection } from '@temporalio/worker';
import { expect } from 'chai';
import { loadConfig, type TemporalConfig } from '#src/config.ts';
import { createTemporalConnection, temporalConnectionOptions } from '#src/temporal/connection.ts';
import { type Authority, createAuthority, writePems } from '#test/support/certificates.ts';
import { type GrpcProxy, startGrpcProxy } from '#test/support/grpc-proxy.ts';
import { requiredSettings } from '#test/support/required-settings.ts';
import { testServices } from '#test/support/services.ts';
import { testCallTimeoutMs } from '#test/support/temporal-client.ts';
import { installRuntimeOnce } from '#test/support/temporal-runtime.ts';

const apiKey = 'key-of-the-deployment';
const serverName = 'temporal.internal';

describe('the connection to Temporal', () => {
  let proxy: GrpcProxy;
  let ours: Authority;
  let files: Awaited<ReturnType<typeof writePems>>;

  before(async () => {
    installRuntimeOnce();
    ours = await createAuthority('Our authority');
    const others = await createAuthority('Authority of others');
    const [server, client, stranger] = await Promise.all([
      ours.issue(serverName),
      ours.issue('worker'),
      others.issue('worker'),
    ]);
    files = await writePems({
      ca: ours.certPem,
      'other-ca': others.certPem,
      cert: client.certPem,
      key: client.keyPem,
      'stranger-cert': stranger.certPem,
      'stranger-key': stranger.keyPem,
    });
    proxy = await startGrpcProxy(testServices().temporalAddress, {
      tls: { cert: server.certPem, key: server.keyPem, ca: ours.certPem, requestCert: true, rejectUnauthorized: true },
      apiKey,
    });
  });
  after(async () => {
    await proxy.close();
    await rm(files.folder, { recursive: true });
  });

  const settings = (overrides: Record<string, string> = {}): TemporalConfig =>
    loadConfig({
      ...requiredSettings,
      TEMPORAL_ADDRESS: proxy.address,
      TEMPORAL_TLS_SERVER_CA_CERT_PATH: files.path('ca'),
      TEMPORAL_TLS_CLIENT_CERT_PATH: files.path('cert'),
      TEMPORAL_TLS_CLIENT_KEY_PATH: files.path('key'),
      TEMPORAL_TLS_SERVER_NAME: serverName,
      TEMPORAL_API_KEY: apiKey,
      TEMPORAL_CALL_TIMEOUT_MS: String(testCallTimeoutMs),
      ...overrides,
    }).temporal;

  /** The outcome of a connection of the API and one of a worker with these settings. */
  async function ask(config: TemporalConfig): Promise<string[]> {
    const client = createTemporalConnection(config);
    const asClient = async () => {
      const { workflowService } = client.client;
      const { namespaceInfo } = await client.call(() => workflowService.describeNamespace({ namespace: 'default' }));
      return namespaceInfo?.name ?? '';
    };
    const asWorker = async () => {
      const connection = await NativeConnection.connect(temporalConnectionOptions(config));
      try {
        const { namespaceInfo } = await connection.workflowService.describeNamespace({ namespace: 'default' });
        return namespaceInfo?.name ?? '';
      } finally {
        await connection.close();
      }
    };
    const reason = (error: unknown) => `refused: ${reasonsOf(error).join(': ')}`;
    try {
      return await Promise.all([asClient().catch(reason), asWorker().catch(reason)]);
    } finally {
      await client.close();
    }
  }

  it('uses mutual TLS and sends the API key', async () => {
    expect(await ask(settings())).deep.equal(['default', 'default']);
  });

  it('rejects a server certificate of another CA', async () => {
    const answers = await ask(settings({ TEMPORAL_TLS_SERVER_CA_CERT_PATH: files.path('other-ca') }));
    for (const answer of answers) expect(answer).match(/^refused: .*(certificate|UnknownIssuer)/i);
  });

  it('rejects a server certificate of another name', async () => {
    const answers = await ask(settings({ TEMPORAL_TLS_SERVER_NAME: 'other.internal' }));
    for (const answer of answers) expect(answer).match(/^refused: .*(altnames|certificate)/i);
  });

  it('is refused by the server for clients with a certificate of another CA or none', async () => {
    const stranger = settings({
      TEMPORAL_TLS_CLIENT_CERT_PATH: files.path('stranger-cert'),
      TEMPORAL_TLS_CLIENT_KEY_PATH: files.path('stranger-key'),
    });
    const anonymous = settings({ TEMPORAL_TLS_CLIENT_CERT_PATH: '', TEMPORAL_TLS_CLIENT_KEY_PATH: '' });
    for (const config of [stranger, anonymous]) {
      const answers = await ask(config);
      for (const answer of answers) expect(answer).match(/^refused: /);
    }
  });

  it('is refused by the server for another API key', async () => {
    const answers = await ask(settings({ TEMPORAL_API_KEY: 'another' }));
    for (const answer of answers) expect(answer).match(/^refused: .*unauthorized/i);
  });

  it('is not attempted with inconsistent settings', () => {
    const refusal = (overrides: Record<string, string>) => {
      try {
        settings(overrides);
      } catch (error) {
        return error instanceof Error ? error.message : '';
      }
      return undefined;
    };
    expect(refusal({ TEMPORAL_TLS: 'off' })).match(
      /^wrong setting TEMPORAL_TLS: TEMPORAL_TLS_SERVER_CA.* require TLS$/,
    );
    expect(refusal({ TEMPORAL_TLS_CLIENT_KEY_PATH: '' })).equal(
      'wrong setting TEMPORAL_TLS_CLIENT_KEY_PATH: required together with TEMPORAL_TLS_CLIENT_CERT_PATH',
    );
    expect(refusal({ TEMPORAL_TLS_CLIENT_KEY_PATH: files.path('stranger-key') })).equal(
      'wrong setting TEMPORAL_TLS_CLIENT_KEY_PATH: the private key does not match the certificate of TEMPORAL_TLS_CLIENT_CERT_PATH',
    );
    expect(refusal({ TEMPORAL_TLS_SERVER_CA_CERT_PATH: files.path('key') })).equal(
      'wrong setting TEMPORAL_TLS_SERVER_CA_CERT_PATH: must be the path of a certificate in PEM',
    );
    expect(refusal({ TEMPORAL_TLS_CLIENT_KEY_PATH: files.path('cert') })).match(/must be the path of a private key/);
    expect(refusal({ TEMPORAL_TLS_SERVER_CA_CERT_PATH: '/nowhere' })).match(/^wrong setting .*ENOENT/);
  });
});

function reasonsOf(error: unknown): string[] {
  return error instanceof Error ? [error.message, ...reasonsOf(error.cause)] : [];
}
