import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'chai';
import { miniLm } from './model-manifest.ts';
import { toolsDir } from './test-server.ts';

const MOMENTS = 8;

describe('the model server as a process', () => {
  const children: ChildProcessWithoutNullStreams[] = [];
  afterEach(() => {
    for (const child of children.splice(0)) child.kill('SIGKILL');
  });

  function start(environment: Record<string, string>) {
    const child = spawn(process.execPath, [join(import.meta.dirname, 'main.ts')], {
      env: { PATH: process.env.PATH, PORT: '0', TOOLS_DIR: toolsDir(), ...environment },
    });
    children.push(child);
    let log = '';
    child.stdout.on('data', (chunk) => {
      log += chunk;
    });
    return { child, log: () => log, exited: once(child, 'close').then(([code]) => code) };
  }

  it('serves, and ends with code 0 on SIGTERM', async () => {
    const { child, log, exited } = start({});
    while (!log().includes('model loaded')) await once(child.stdout, 'data');
    const url = /"url":"([^"]+)"/.exec(log())?.[1];
    const health = await fetch(`${url}/health`);
    expect(health.status).to.equal(200);

    child.kill('SIGTERM');
    expect(await exited).to.equal(0);
  });

  it('ends with code 0 at whatever moment of loading it is stopped', async () => {
    const undisturbed = start({});
    while (!undisturbed.log().includes('listening')) await once(undisturbed.child.stdout, 'data');
    const listeningMs = performance.now();
    while (!undisturbed.log().includes('model loaded')) await once(undisturbed.child.stdout, 'data');
    const loadMs = performance.now() - listeningMs;
    undisturbed.child.kill('SIGTERM');
    expect(await undisturbed.exited).to.equal(0);

    for (let moment = 0; moment < MOMENTS; moment += 1) {
      const { child, log, exited } = start({});
      while (!log().includes('listening')) await once(child.stdout, 'data');
      await delay((loadMs * moment) / MOMENTS);
      child.kill('SIGTERM');
      expect(await exited, `after ${moment} of ${MOMENTS} parts of loading`).to.equal(0);
    }
  }).timeout(60_000);

  it('refuses an address that others can reach', async () => {
    const { log, exited } = start({ HOST: '0.0.0.0' });
    expect(await exited).to.equal(1);
    expect(log()).to.include('HOST').and.include('127.0.0.1');
  });

  it('takes one in a network that somebody vouches for', async () => {
    const { child, log } = start({ HOST: '0.0.0.0', TRUST_NETWORK: 'true' });
    while (!log().includes('listening')) await once(child.stdout, 'data');
    const port = /"url":"[^"]+:(\d+)"/.exec(log())?.[1];
    expect((await fetch(`http://127.0.0.1:${port}/health`)).status).to.equal(200);
  });

  it('names the setting that is wrong, and takes an empty one for absent', async () => {
    const wrong: Record<string, Record<string, string>> = {
      PORT: { PORT: '', LLM_THREADS: '' },
      LLM_THREADS: { LLM_THREADS: 'many' },
      TOOLS_DIR: { TOOLS_DIR: '/nowhere', MODEL_DIR: '' },
    };
    for (const [name, settings] of Object.entries(wrong)) {
      const { log, exited } = start(settings);
      expect(await exited).to.equal(1);
      expect(JSON.parse(log()).msg).to.match(new RegExp(`^${name}: [^;]+$`));
    }
  });

  it('refuses a model file that is not the pinned one', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'model-server-'));
    try {
      for (const { name } of miniLm.files) await writeFile(join(dir, name), 'something else');
      const { log, exited } = start({ MODEL_DIR: dir });
      expect(await exited).to.equal(1);
      expect(log()).to.include('SHA-256');
    } finally {
      await rm(dir, { recursive: true });
    }
  });
});
