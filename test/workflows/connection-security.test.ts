import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { NativeConnection } from '@temporalio/worker';
import { expect } from 'chai';
import { generate } from 'selfsigned';
import { loadConfig, type TemporalConfig } from '#src/config.ts';
import { createTemporalConnection, temporalConnectionOptions } from '#src/temporal/connection.ts';
import { type GrpcProxy, startGrpcProxy } from '#test/support/proxies.ts';
import { requiredSettings, testServices } from '#test/support/services.ts';
import { installRuntimeOnce, testCallTimeoutMs } from '#test/support/temporal.ts';

const apiKey = 'key-of-the-deployment';
const serverName = 'temporal.internal';
const CA = 'TEMPORAL_TLS_SERVER_CA_CERT_PATH';
const CERT = 'TEMPORAL_TLS_CLIENT_CERT_PATH';
const KEY = 'TEMPORAL_TLS_CLIENT_KEY_PATH';

describe('the connection to Temporal', () => {
  let proxy: GrpcProxy;
  let folder: string;
  const path = (name: string) => join(folder, name);

  before(async () => {
    installRuntimeOnce();
    const [ours, others] = [await createAuthority('Our authority'), await createAuthority('Other authority')];
    const [server, client] = [await ours.issue(serverName), await ours.issue('worker')];
    const stranger = await others.issue('worker');
    const pems = { ca: ours.cert, cert: client.cert, key: client.private };
    const strange = { 'other-ca': others.cert, 'stranger-cert': stranger.cert, 'stranger-key': stranger.private };
    folder = await mkdtemp(join(tmpdir(), 'pems-'));
    for (const [name, pem] of Object.entries({ ...pems, ...strange }))
      await writeFile(path(name), pem, { mode: 0o600 });
    proxy = await startGrpcProxy(testServices().temporalAddress, {
      tls: { cert: server.cert, key: server.private, ca: ours.cert, requestCert: true, rejectUnauthorized: true },
      apiKey,
    });
  });
  after(async () => {
    await proxy.close();
    await rm(folder, { recursive: true });
  });

  function settings(overrides: Record<string, string> = {}): TemporalConfig {
    const files = { [CA]: path('ca'), [CERT]: path('cert'), [KEY]: path('key') };
    const server = { TEMPORAL_ADDRESS: proxy.address, TEMPORAL_TLS_SERVER_NAME: serverName, TEMPORAL_API_KEY: apiKey };
    const timeout = { TEMPORAL_CALL_TIMEOUT_MS: String(testCallTimeoutMs) };
    return loadConfig({ ...requiredSettings, ...server, ...files, ...timeout, ...overrides }).temporal;
  }

  /** The outcome of a connection of the API and one of a worker with these settings. */
  async function ask(config: TemporalConfig): Promise<string[]> {
    const request = { namespace: 'default' };
    const asClient = async () => {
      const { client, call, close } = createTemporalConnection(config);
      return call(() => client.workflowService.describeNamespace(request)).finally(close);
    };
    const asWorker = async () => {
      const connection = await NativeConnection.connect(temporalConnectionOptions(config));
      return connection.workflowService.describeNamespace(request).finally(() => connection.close());
    };
    const outcomeOf = (answer: ReturnType<typeof asClient>) =>
      answer.then(
        ({ namespaceInfo }) => namespaceInfo?.name ?? '',
        (error: unknown) => `refused: ${reasonsOf(error).join(': ')}`,
      );
    return Promise.all([outcomeOf(asClient()), outcomeOf(asWorker())]);
  }

  it('uses mutual TLS and sends the API key', async () => {
    expect(await ask(settings())).deep.equal(['default', 'default']);
  });

  it('fails for a certificate of another CA or name, without a trusted client certificate, and for another API key', async () => {
    const refused: [Record<string, string>, RegExp][] = [
      [{ [CA]: path('other-ca') }, /^refused: .*(certificate|UnknownIssuer)/i],
      [{ TEMPORAL_TLS_SERVER_NAME: 'other.internal' }, /^refused: .*(altnames|certificate)/i],
      [{ [CERT]: path('stranger-cert'), [KEY]: path('stranger-key') }, /^refused: /],
      [{ [CERT]: '', [KEY]: '' }, /^refused: /],
      [{ TEMPORAL_API_KEY: 'another' }, /^refused: .*unauthorized/i],
    ];
    for (const [overrides, reason] of refused) {
      for (const answer of await ask(settings(overrides))) expect(answer, JSON.stringify(overrides)).match(reason);
    }
  });

  it('is not attempted with inconsistent settings', () => {
    const wrong: [Record<string, string>, string | RegExp][] = [
      [{ TEMPORAL_TLS: 'off' }, /^wrong setting TEMPORAL_TLS: TEMPORAL_TLS_SERVER_CA.* require TLS$/],
      [{ [KEY]: '' }, `wrong setting ${KEY}: required together with ${CERT}`],
      [
        { [KEY]: path('stranger-key') },
        `wrong setting ${KEY}: the private key does not match the certificate of ${CERT}`,
      ],
      [{ [CA]: path('key') }, `wrong setting ${CA}: must be the path of a certificate in PEM`],
      [{ [KEY]: path('cert') }, /must be the path of a private key/],
      [{ [CA]: '/nowhere' }, /^wrong setting .*ENOENT/],
    ];
    for (const [overrides, message] of wrong) expect(() => settings(overrides)).throw(message);
  });
});

/** Issues certificates for a server or a client of a name. */
async function createAuthority(name: string) {
  const usual = { keyType: 'ec', curve: 'P-256', algorithm: 'sha256' } as const;
  const called = (value: string) => [{ name: 'commonName', value }];
  const ofAuthority = [
    { name: 'basicConstraints', cA: true, critical: true } as const,
    { name: 'keyUsage', keyCertSign: true, cRLSign: true, critical: true } as const,
  ];
  const root = await generate(called(name), { ...usual, extensions: ofAuthority });
  const issue = (subject: string) =>
    generate(called(subject), {
      ...usual,
      ca: { cert: root.cert, key: root.private },
      extensions: [
        { name: 'basicConstraints', cA: false },
        { name: 'subjectAltName', altNames: [{ type: 2, value: subject }] },
      ],
    });
  return { cert: root.cert, issue };
}

function reasonsOf(error: unknown): string[] {
  return error instanceof Error ? [error.message, ...reasonsOf(error.cause)] : [];
}
