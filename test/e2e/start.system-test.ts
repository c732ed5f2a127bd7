import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { createEmbeddedService, type EmbeddedService } from '#test/support/embedded-service.ts';
import { until } from '#test/support/until.ts';
import { processStart } from '../../scripts/supervisor/process-lock.mjs';

describe('npm start', function () {
  this.timeout(180_000);
  let service: EmbeddedService;

  before(async () => {
    service = await createEmbeddedService();
  });
  after(() => service.close());

  it('serves on a new data folder, ends all its processes on SIGTERM, and starts again with every optional service', async () => {
    const apiUrl = `http://127.0.0.1:${service.ports.PORT}`;
    const all = { VECTOR_STORE: 'qdrant', TEMPORAL_CODEC_KEY: `1:${randomBytes(32).toString('base64')}` };
    const starts = [{ processes: 5 }, { settings: all, args: ['--with-sso'], processes: 8 }];
    for (const { settings, args, processes } of starts) {
      const { child, ended, ready } = service.start(settings, args);
      await ready;
      expect((await fetch(`${apiUrl}/readyz`)).status).to.equal(200);
      // Longer than what Node takes by itself.
      expect((await fetch(`${apiUrl}/healthz?${'a'.repeat(40_000)}`)).status).to.equal(422);
      const tree = service.children();
      expect(tree).to.have.length(processes);
      if (settings !== undefined) await expectUiToAskTheCodec(service.ports);
      child.kill('SIGTERM');
      const { code, output } = await ended;
      expect(output).to.match(
        /^Starting postgres, temporal, (codec-server, qdrant, )?model-server, (identity-provider, )?worker, api …\n/,
      );
      for (const name of ['postgres', 'temporal', 'model-server', 'api']) {
        expect(output).to.match(new RegExp(`^  ${name} is up, after [\\d.]+ s$`, 'm'));
      }
      expect(output)
        .to.include(`${apiUrl}/docs`)
        .and.include(join(service.toolsDir, 'bin', 'temporal'));
      expect(output).to.match(/\nStopping …\n$/);
      expect(code).to.equal(0);
      for (const { pid, start } of tree) expect(processStart(pid)).not.to.equal(start);
    }
  });

  it('stores its secrets in files that only their owner can read', () => {
    const folder = join(service.dataDir, 'secrets');
    const names = readdirSync(folder).sort();
    expect(names).deep.equal(['encryption-keys', 'jwt-private-key.pem', 'postgres-password', 'url-signing-key']);
    for (const name of names) expect(statSync(join(folder, name)).mode & 0o777, name).equal(0o600);
  });

  it('ends with exit code 130 when it is interrupted while it starts', async () => {
    const { child, ended } = service.start();
    await until('it starts', async () => existsSync(join(service.dataDir, 'run', 'supervisor.lock')));
    child.kill('SIGINT');
    const { code, output } = await ended;
    expect(output).to.include('Stopping …');
    expect(code).to.equal(130);
  });

  it('refuses wrong settings before anything starts, in one line that names them', async () => {
    const refusals: [Record<string, string>, RegExp][] = [
      [{ LOG_LEVEL: 'loud' }, /^wrong setting LOG_LEVEL: [^\n]+\n$/],
      [{ TEMPORAL_TLS: 'on' }, /^wrong setting TEMPORAL_TLS, [^\n]+ set TEMPORAL_ADDRESS to use another one\n$/],
      [
        { TEMPORAL_ADDRESS: '127.0.0.1:1' },
        /^TEMPORAL_ADDRESS: the server at 127\.0\.0\.1:1[^\n]+ECONNREFUSED[^\n]+\n$/m,
      ],
    ];
    for (const [settings, message] of refusals) {
      const { code, output } = await service.start(settings).ended;
      expect(output).match(message).not.include('is up');
      expect(code).equal(1);
    }
  });
});

/** Checks that the embedded UI knows the codec server, and gets answers from it. */
async function expectUiToAskTheCodec(ports: EmbeddedService['ports']): Promise<void> {
  const ui = `http://127.0.0.1:${ports.TEMPORAL_UI_PORT}`;
  const settings = await (await fetch(`${ui}/api/v1/settings`)).json();
  expect(settings).to.containSubset({ Codec: { Endpoint: `http://127.0.0.1:${ports.CODEC_PORT}` } });
  const asked = await fetch(`http://127.0.0.1:${ports.CODEC_PORT}/decode`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', origin: ui },
    body: JSON.stringify({ payloads: [] }),
  });
  expect(asked.headers.get('access-control-allow-origin')).equal(ui);
  expect(await asked.json()).deep.equal({ payloads: [] });
}
