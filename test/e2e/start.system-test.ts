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
    const { apiUrl, settings: ownSettings } = service;
    const all = { VECTOR_STORE: 'qdrant', TEMPORAL_CODEC_KEY: `1:${randomBytes(32).toString('base64')}` };
    const starts = [{ processes: 5 }, { settings: all, args: ['--with-sso'], processes: 8 }];
    for (const { settings, args, processes } of starts) {
      const { child, ended, ready } = service.start(settings, args);
      await ready;
      expect((await fetch(`${apiUrl}/readyz`)).status).equal(200);
      // Longer than what Node takes by itself.
      expect((await fetch(`${apiUrl}/healthz?${'a'.repeat(40_000)}`)).status).equal(422);
      const tree = service.children();
      expect(tree).length(processes);
      if (settings !== undefined) await expectUiToAskTheCodec(ownSettings);
      child.kill('SIGTERM');
      const { code, output } = await ended;
      expect(output).match(
        /^Starting postgres, temporal, (codec-server, qdrant, )?model-server, (identity-provider, )?worker, api …\n/,
      );
      for (const name of ['postgres', 'temporal', 'model-server', 'api']) {
        expect(output).match(new RegExp(`^  ${name} is up, after [\\d.]+ s$`, 'm'));
      }
      expect(output)
        .include(`${apiUrl}/docs`)
        .and.include(join(ownSettings.TOOLS_DIR, 'bin', 'temporal'));
      expect(output).match(/\nStopping …\n$/);
      expect(code).equal(0);
      for (const { pid, start } of tree) expect(processStart(pid)).not.equal(start);
    }
  });

  it('stores its secrets in files that only their owner can read', () => {
    const folder = join(service.settings.DATA_DIR, 'secrets');
    const names = readdirSync(folder).sort();
    expect(names).deep.equal(['encryption-keys', 'jwt-private-key.pem', 'postgres-password', 'url-signing-key']);
    for (const name of names) expect(statSync(join(folder, name)).mode & 0o777, name).equal(0o600);
  });

  it('ends with exit code 130 when it is interrupted while it starts', async () => {
    const { child, ended } = service.start();
    await until('it starts', async () => existsSync(join(service.settings.DATA_DIR, 'run', 'supervisor.lock')));
    child.kill('SIGINT');
    const { code, output } = await ended;
    expect(output).include('Stopping …');
    expect(code).equal(130);
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
async function expectUiToAskTheCodec(settings: EmbeddedService['settings']): Promise<void> {
  const ui = `http://127.0.0.1:${settings.TEMPORAL_UI_PORT}`;
  const codec = `http://127.0.0.1:${settings.CODEC_PORT}`;
  expect(await (await fetch(`${ui}/api/v1/settings`)).json()).containSubset({ Codec: { Endpoint: codec } });
  const asked = await fetch(`${codec}/decode`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', origin: ui },
    body: JSON.stringify({ payloads: [] }),
  });
  expect(asked.headers.get('access-control-allow-origin')).equal(ui);
  expect(await asked.json()).deep.equal({ payloads: [] });
}
