import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { testServices } from '#test/support/services.ts';
import { processStart } from '../../scripts/bootstrap/process-lock.mjs';
import { findFreePorts } from '../../scripts/supervisor/ports.ts';

const START = join(import.meta.dirname, '..', '..', 'scripts', 'start.ts');

describe('npm start', function () {
  this.timeout(180_000);
  let dataDir: string;
  let settings: Record<string, string>;
  const started = new Set<ChildProcess>();

  before(async () => {
    dataDir = mkdtempSync(join(tmpdir(), 'start-'));
    const names = ['PORT', 'POSTGRES_PORT', 'TEMPORAL_PORT', 'TEMPORAL_UI_PORT', 'MODEL_SERVER_PORT'];
    const ports = await findFreePorts(names.length);
    settings = Object.fromEntries(names.map((name, index) => [name, String(ports[index])]));
  });

  after(async () => {
    for (const child of started) child.kill('SIGTERM');
    await Promise.all([...started].map((child) => child.exitCode ?? once(child, 'exit')));
    rmSync(dataDir, { recursive: true, maxRetries: 3 });
  });

  function start(changes: Record<string, string> = {}) {
    const env = {
      PATH: process.env.PATH,
      DATA_DIR: dataDir,
      TOOLS_DIR: testServices().toolsDir,
      ...settings,
      ...changes,
    };
    const child = spawn(process.execPath, [START], { env, stdio: ['ignore', 'pipe', 'pipe'] });
    started.add(child);
    const says = Promise.withResolvers<void>();
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (part) => {
        output += part;
        if (output.includes('is ready')) says.resolve();
      });
    }
    const ended = once(child, 'close').then(([code]) => {
      started.delete(child);
      says.reject(new Error(output));
      return { code, output };
    });
    says.promise.catch(() => undefined);
    return { child, ended, ready: says.promise };
  }

  const children = (): { pid: number; start: string }[] =>
    JSON.parse(readFileSync(join(dataDir, 'run', 'children.json'), 'utf8'));

  it('serves on a fresh data folder, ends its whole tree on SIGTERM, and does so again on the same data', async () => {
    for (const _ of ['cold', 'warm']) {
      const { child, ended, ready } = start();
      await ready;
      expect((await fetch(`http://127.0.0.1:${settings.PORT}/readyz`)).status).to.equal(200);
      const tree = children();
      expect(tree).to.have.length(5);
      child.kill('SIGTERM');
      const { code, output } = await ended;
      expect(output).to.include(`http://127.0.0.1:${settings.PORT}/docs`);
      expect(code).to.equal(0);
      for (const { pid, start } of tree) expect(processStart(pid)).not.to.equal(start);
    }
  });

  it('keeps its secrets for their owner alone', () => {
    const folder = join(dataDir, 'secrets');
    const modes = readdirSync(folder).map((name) => [name, statSync(join(folder, name)).mode & 0o777]);
    expect(Object.fromEntries(modes)).to.deep.equal({
      'encryption-keys': 0o600,
      'jwt-private-key.pem': 0o600,
      'postgres-password': 0o600,
      'url-signing-key': 0o600,
    });
  });

  it('refuses a wrong setting before anything starts, in one line that names it', async () => {
    const { code, output } = await start({ LOG_LEVEL: 'loud' }).ended;
    expect(output).to.match(/^wrong setting LOG_LEVEL: [^\n]+\n$/);
    expect(code).to.equal(1);
  });
});
