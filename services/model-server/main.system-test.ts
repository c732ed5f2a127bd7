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
    const exited = once(child, 'close').then(([code]) => code);
    const says = async (words: string) => {
      while (!log.includes(words)) {
        const isOver = await Promise.race([once(child.stdout, 'data').then(() => false), exited.then(() => true)]);
        if (isOver && !log.includes(words)) throw new Error(`It ended before it said "${words}": ${log}`);
      }
    };
    /** Milliseconds, by the server's own clock in its log. */
    const timeOf = (words: string): number => {
      const lines = log.split('\n').filter((line) => line.includes(words));
      return JSON.parse(lines[0] ?? '{}').time;
    };
    return { child, log: () => log, says, timeOf, exited };
  }

  it('serves, and ends with code 0 on SIGTERM', async () => {
    const { child, log, says, exited } = start({});
    await says('model loaded');
    const url = /"url":"([^"]+)"/.exec(log())?.[1];
    const health = await fetch(`${url}/health`);
    expect(health.status).to.equal(200);

    child.kill('SIGTERM');
    expect(await exited).to.equal(0);
  });

  it('ends with code 0 at whatever moment of loading it is stopped', async () => {
    const undisturbed = start({});
    await undisturbed.says('model loaded');
    const [listening, loaded] = ['listening', 'model loaded'].map((words) => undisturbed.timeOf(words));
    const loadMs = Number(loaded) - Number(listening);
    expect(loadMs).greaterThan(0);
    undisturbed.child.kill('SIGTERM');
    expect(await undisturbed.exited).to.equal(0);

    for (let moment = 0; moment < MOMENTS; moment += 1) {
      const { child, says, exited } = start({});
      await says('listening');
      await delay((loadMs * moment) / MOMENTS);
      child.kill('SIGTERM');
      expect(await exited, `after ${moment} of ${MOMENTS} parts of loading`).to.equal(0);
    }
  }).timeout(240_000);

  it('refuses an address that others can reach', async () => {
    const { log, exited } = start({ HOST: '0.0.0.0' });
    expect(await exited).to.equal(1);
    expect(log()).to.include('HOST').and.include('127.0.0.1');
  });

  it('accepts a non-loopback HOST with TRUST_NETWORK=true', async () => {
    const { log, says } = start({ HOST: '0.0.0.0', TRUST_NETWORK: 'true' });
    await says('listening');
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
