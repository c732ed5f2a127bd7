import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'chai';
import { skip } from '#test/support/skip.ts';
import type { ChildSpec } from '../../scripts/supervisor/child-spec.ts';
import { checkPortsAreFree, findFreePorts } from '../../scripts/supervisor/ports.ts';
import { processStart } from '../../scripts/supervisor/process-lock.mjs';
import { StartFailure } from '../../scripts/supervisor/start-failure.ts';
import { openSupervisor, type Supervisor } from '../../scripts/supervisor/supervisor.ts';
import { DEFAULT_WATCH, type WatchPolicy } from '../../scripts/supervisor/watch.ts';

const SUPERVISOR = new URL('../../scripts/supervisor/', import.meta.url).href;

describe('the supervisor', () => {
  let dataDir: string;
  let lines: string[];
  let supervisor: Supervisor | undefined;

  beforeEach(() => {
    dataDir = mkdtempSync(join(tmpdir(), 'supervisor-'));
    lines = [];
  });

  afterEach(async () => {
    await supervisor?.stop();
    supervisor = undefined;
    rmSync(dataDir, { recursive: true, maxRetries: 3 });
  });

  async function open(watched: Partial<WatchPolicy> = {}): Promise<Supervisor> {
    const restarts = { firstDelayMs: 5, fatalDeaths: 3, windowMs: 60_000 };
    const watch = { ...DEFAULT_WATCH, fullBelowBytes: 0, ...watched };
    supervisor = await openSupervisor({ dataDir, log: (line) => lines.push(line), restarts, watch });
    return supervisor;
  }

  /** A child in a few words of shell: it touches $READY once it is, and writes to the diary what the test asks for. */
  function child(name: string, script: string, changes: Partial<ChildSpec> = {}): ChildSpec {
    return {
      name,
      command: ['sh', '-c', script],
      env: { PATH: process.env.PATH ?? '', READY: ready(name), DIARY: join(dataDir, 'diary') },
      stopSignal: 'SIGTERM',
      stopTimeoutMs: 60_000,
      readyTimeoutMs: 60_000,
      isReady: async () => existsSync(ready(name)),
      ...changes,
    };
  }

  const ready = (name: string) => join(dataDir, `${name}.ready`);
  const diary = () => readFileSync(join(dataDir, 'diary'), 'utf8').trim().split('\n');
  const livesOn = 'echo $$ >> "$DIARY"; touch "$READY"; exec sleep 60';
  const saysGoodbye = (name: string) =>
    `trap 'echo ${name} >> "$DIARY"; kill $!; exit 0' TERM; sleep 60 & touch "$READY"; wait`;

  it('reports each child that becomes ready, and stops the children in the reverse order of their start', async () => {
    const { start, stop } = await open();
    const told: string[] = [];
    const slow = child('slow', `until [ -e "$DIARY.go" ]; do sleep 0.01; done; ${saysGoodbye('slow')}`);
    await start([slow, child('quick', livesOn)], (name) => {
      told.push(name);
      writeFileSync(join(dataDir, 'diary.go'), '');
    });
    expect(told).deep.equal(['quick', 'slow']);
    await start([child('api', saysGoodbye('api'))]);
    await stop();
    expect(diary().slice(1)).deep.equal(['api', 'slow']);
    expect(lines).deep.equal([]);
  });

  it('restarts a child process that dies, and shows the last log lines of that child', async () => {
    const { start } = await open();
    await start([child('api', `echo out of memory; ${livesOn}`)]);
    process.kill(Number(diary()[0]), 'SIGKILL');
    await until(() => lines.includes('api is running again.') && diary().length === 2);
    expect(lines[0]).equal('api ended (SIGKILL) and is restarted. Its last log lines:\n  out of memory');
  });

  it('gives up when a child dies for the third time within a minute', async () => {
    const { start, failed, stop } = await open();
    await start([child('neighbour', livesOn)]);
    const lucklessOnceReady = 'touch "$READY"; until [ -e "$DIARY.end" ]; do sleep 0.01; done; echo no luck; exit 7';
    await start([child('api', lucklessOnceReady)]);
    writeFileSync(join(dataDir, 'diary.end'), '');
    const failure = await failureOf(failed);
    expect(failure).instanceOf(StartFailure);
    expect(failure.message).equal(
      `api ended 3 times within 60 s (exit code 7). The end of ${dataDir}/logs/api.log:\n  no luck`,
    );
    await stop();
    expect(processStart(Number(diary()[0]))).equal(null);
  });

  it('fails when a child dies before it was ever ready, or is not ready in time', async () => {
    const dies = child('api', 'echo bad setting >&2; exit 3');
    const sleeps = child('api', 'exec sleep 60', { readyTimeoutMs: 100 });
    const cases: [child: ChildSpec, message: string][] = [
      [dies, `(exit code 3). The end of ${dataDir}/logs/api.log:\n  bad setting`],
      [sleeps, '(no answer within 0.1 s)'],
    ];
    for (const [spec, message] of cases) {
      const { start, stop } = await open();
      const failure = await failureOf(start([spec, child('worker', livesOn)]));
      expect(failure.message).include(`api ended before it was ready ${message}`);
      await stop();
    }
  });

  it('reports a child that no longer answers, and restarts a child that hangs', async () => {
    const { start } = await open({ intervalMs: 20, silentAfter: 2, hangsAfter: 4 });
    const hangs = `trap '' TERM; echo $$ >> "$DIARY"; touch "$READY"; sleep 60 & wait; wait`;
    const once = child('once', livesOn);
    await start([child('api', hangs, { restartIfSilent: true, stopTimeoutMs: 50 }), once]);
    rmSync(ready('once'));
    await until(() => lines.includes('once does not answer its health probe.'));
    rmSync(ready('api'));
    await until(() => lines.includes('api is running again.'));
    writeFileSync(ready('once'), '');
    await until(() => lines.includes('once answers its health probe again.'));
    const ofApi = lines.filter((line) => line.startsWith('api'));
    expect(ofApi.slice(0, 2)).deep.equal(['api does not answer its health probe.', 'api hangs and is restarted.']);
    expect(ofApi[2]).include('api ended (SIGKILL) and is restarted.');
  });

  it('reports that the disk is full', async () => {
    await open({ intervalMs: 5, fullBelowBytes: Number.MAX_SAFE_INTEGER });
    await until(() => lines.length > 0);
    expect(lines[0]).match(/^The disk of \S+ is full \(\d+ MB free\): uploads are refused/);
  });

  it('rotates the logs while their processes write', async () => {
    const { start } = await open({ intervalMs: 20 });
    const log = join(dataDir, 'logs', 'api.log');
    const writes = `touch "$READY"; i=0; while sleep 0.01; do i=$((i+1)); printf "%01000000d end $i\n" 0; done`;
    await start([child('api', writes)]);
    await until(() => existsSync(`${log}.3`));
    await until(() => statSync(log).size < 5e6);
    expect(readdirSync(join(dataDir, 'logs')).filter((name) => !name.endsWith('.new'))).length(4);
    // A line that is being written may be cut.
    expect(readFileSync(`${log}.1`).includes(' end ')).equal(true);
  });

  it('kills a child that does not end when asked, and all processes that the child started', async () => {
    const { start, stop } = await open();
    const deaf = `trap '' TERM; sleep 60 & echo $! >> "$DIARY"; echo $$ >> "$DIARY"; touch "$READY"; wait`;
    await start([child('deaf', deaf, { stopTimeoutMs: 50 })]);
    await stop();
    await until(() => diary().every((pid) => processStart(Number(pid)) === null));
  });

  it('refuses a data folder that another process uses, or that cannot be used, with the reason', async () => {
    await open();
    const file = join(dataDir, 'file');
    writeFileSync(file, '');
    const refusals: [folder: string, message: RegExp][] = [
      [dataDir, new RegExp(`is in use by process ${process.pid}: stop it first, or set another DATA_DIR\\.$`)],
      [file, /^DATA_DIR: \S+ cannot be used: .*it, or a folder above it, is a file/],
      ['/proc/acs', /^DATA_DIR: \S+ cannot be used: .*(No such|read-only|may not write)/i],
    ];
    for (const [folder, message] of refusals) {
      const failure = await failureOf(openSupervisor({ dataDir: folder, log: () => undefined }));
      expect(failure).instanceOf(StartFailure);
      expect(failure.message).match(message);
    }
  });

  it('ends the processes that an earlier supervisor left, but no other process', async () => {
    const orphan = Number(
      run(`
        import { spawn } from 'node:child_process';
        import { openDataFolder } from '${SUPERVISOR}data-folder.ts';
        const { pid } = spawn('sleep', ['60'], { detached: true, stdio: 'ignore' });
        (await openDataFolder('${dataDir}')).record([{ name: 'orphan', pid, stopSignal: 'SIGTERM' }]);
        console.log(pid);
        process.exit(0);
      `),
    );
    expect(processStart(orphan)).to.be.a('string');
    const stranger = spawn('sleep', ['60']);
    await open();
    expect(processStart(orphan)).equal(null);
    expect(stranger.kill()).equal(true);
  });

  it('leaves no running children when it is killed', async function () {
    if (spawnSync('setpriv', ['--pdeathsig', 'KILL', 'true']).status !== 0) skip(this, 'no setpriv');
    run(`
      import { existsSync } from 'node:fs';
      import { openSupervisor } from '${SUPERVISOR}supervisor.ts';
      const supervisor = await openSupervisor({ dataDir: '${dataDir}', log: console.log });
      const isReady = async () => existsSync('${ready('api')}');
      await supervisor.start([{ ...${JSON.stringify(child('api', livesOn))}, isReady }]);
      process.kill(process.pid, 'SIGKILL');
    `);
    await until(() => processStart(Number(diary()[0])) === null);
    await open();
  });
});

describe('ports of the embedded services', () => {
  it('are free and different, and outside the range from which outgoing connections take ports', async () => {
    const ports = await findFreePorts(20);
    expect(new Set(ports).size).equal(20);
    for (const port of ports) expect(port).within(1_024, 32_767);
    await checkPortsAreFree(ports.map((port, index) => ({ setting: `PORT_${index}`, host: '127.0.0.1', port })));
  });

  it('are refused together if they are taken or equal, with a line for each setting', async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const [free = 0] = await findFreePorts(1);
    const ports = [
      { setting: 'POSTGRES_PORT', host: '127.0.0.1', port },
      { setting: 'PORT', host: '127.0.0.1', port: free },
      { setting: 'TEMPORAL_PORT', host: '192.0.2.1', port: free + 1 },
    ];
    const taken = await failureOf(checkPortsAreFree(ports));
    expect(taken.message.split('\n')).deep.equal([
      `Port ${port} on 127.0.0.1 is taken: stop the program that uses it, or set POSTGRES_PORT to another port.`,
      `Cannot listen on 192.0.2.1:${free + 1} (EADDRNOTAVAIL): check HOST and TEMPORAL_PORT.`,
    ]);
    server.close();
    const twice = ['PORT', 'TEMPORAL_PORT'].map((setting) => ({ setting, host: '127.0.0.1', port: free }));
    const same = await failureOf(checkPortsAreFree(twice));
    expect(same.message).equal(`TEMPORAL_PORT and PORT are both ${free}: set one of them to another port.`);
  });
});

function run(program: string): string {
  return spawnSync(process.execPath, ['--input-type=module', '--eval', program], { encoding: 'utf8' }).stdout;
}

const failureOf = (promise: Promise<unknown>): Promise<Error> =>
  promise.then(
    () => expect.fail('it did not fail'),
    (error: Error) => error,
  );

/** Mocha's own limit ends a wait for what never happens. */
async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await delay(10);
}
