import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { openSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { testServices } from '#test/support/services.ts';
import { until } from '#test/support/until.ts';
import { applicationEnvironment } from '../../scripts/application-environment.ts';
import { applicationProcesses } from '../../scripts/launchers/application.ts';
import { modelServer } from '../../scripts/launchers/model-server.ts';
import { qdrantFacade } from '../../scripts/launchers/qdrant.ts';
import { openSecrets } from '../../scripts/secrets.ts';
import { readStartSettings } from '../../scripts/settings.ts';
import type { ChildSpec } from '../../scripts/supervisor/child-spec.ts';
import { findFreePorts } from '../../scripts/supervisor/ports.ts';

const REQUESTS = 50;

/** /dev/full refuses every write with ENOSPC, as a full disk does. */
describe('when the disk is full and takes no log lines,', function () {
  this.timeout(60_000);
  let dataDir: string;
  let child: ChildProcess | undefined;
  let database: Server;
  let connections: number;
  beforeEach(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'full-disk-'));
    connections = 0;
    database = createServer((socket) => {
      connections += 1;
      socket.destroy();
    });
    await once(database.listen(0, '127.0.0.1'), 'listening');
  });
  afterEach(async () => {
    child?.kill('SIGKILL');
    database.close();
    await rm(dataDir, { recursive: true, maxRetries: 3 });
  });

  /** A process whose database hangs up and whose other services are missing, so that it logs much. */
  async function partOfApplication(name: string, port: number): Promise<ChildSpec> {
    const user = {
      DATA_DIR: dataDir,
      TOOLS_DIR: testServices().toolsDir,
      PORT: String(port),
      DATABASE_URL: `postgres://127.0.0.1:${(database.address() as AddressInfo).port}/none`,
      TEMPORAL_ADDRESS: '127.0.0.1:1',
      OPENAI_BASE_URL: 'http://127.0.0.1:1/v1',
      LOG_LEVEL: 'debug',
    };
    const settings = readStartSettings(user);
    const env = applicationEnvironment({ user, settings, secrets: await openSecrets(dataDir, {}) });
    const specs = applicationProcesses(`http://127.0.0.1:${port}`, { ...env, PATH: process.env.PATH ?? '' });
    return specs.find((spec) => spec.name === name) ?? expect.fail(`there is no process ${name}`);
  }

  const specs: Record<string, (port: number) => Promise<ChildSpec>> = {
    'the API': (port) => partOfApplication('api', port),
    'the worker': async (port) => ({
      ...(await partOfApplication('worker', port)),
      isReady: async () => connections > 10,
    }),
    'the model server': async (port) => modelServer({ toolsDir: testServices().toolsDir, port }),
    'the Qdrant facade': async (port) => qdrantFacade({ toolsDir: testServices().toolsDir, dataDir, port }),
  };
  for (const [name, specOf] of Object.entries(specs)) {
    it(`${name} goes on serving, and ends with exit code 0 when it is asked to stop`, async () => {
      const [port = 0] = await findFreePorts(1);
      const { command, env, isReady, stopSignal } = await specOf(port);
      const [program, ...args] = command;
      const full = openSync('/dev/full', 'w');
      const running = spawn(program, args, { env, stdio: ['ignore', full, full] });
      child = running;
      const ended = once(running, 'exit');
      await until(`${name} answers`, () => isReady().catch(() => false));
      for (let request = 0; request < REQUESTS; request += 1) {
        await until(`${name} goes on`, () => isReady().catch(falseIfLate));
      }
      expect(running.exitCode).equal(null);
      running.kill(stopSignal);
      expect(await ended).deep.equal([0, null]);
    });
  }
});

/** A late answer may be the fault of the machine; throws if there is none. */
function falseIfLate(error: unknown): false {
  if (error instanceof DOMException && error.name === 'TimeoutError') return false;
  throw error;
}
