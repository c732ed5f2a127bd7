import { once } from 'node:events';
import { appendFile, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { mock } from 'node:test';
import { expect } from 'chai';
import { applicationProcesses, waitUntilServing } from '../../../scripts/launchers/application.ts';
import { StartFailure } from '../../../scripts/supervisor/start-failure.ts';

describe('API and worker under the supervisor', () => {
  let server: Server;
  let apiUrl: string;
  let hasWorkers: boolean;
  let folder: string;
  const logPath = (name: string) => join(folder, `${name}.log`);

  beforeEach(async () => {
    // Each probe has its own timeout of about a second.
    mock.method(AbortSignal, 'timeout', () => new AbortController().signal);
    folder = await mkdtemp(join(tmpdir(), 'application-'));
    hasWorkers = false;
    server = createServer(({ url }, response) => {
      const isOk = url === '/healthz' || (url === '/readyz' && hasWorkers);
      const checks = { database: true, workers: hasWorkers };
      response.writeHead(isOk ? 200 : 503).end(JSON.stringify({ checks }));
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const address = server.address();
    apiUrl = `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`;
  });
  afterEach(async () => {
    mock.restoreAll();
    server.close();
    server.closeAllConnections();
    await rm(folder, { recursive: true });
  });

  it('gives the worker no key that signs access tokens', () => {
    const env = { JWT_PRIVATE_KEY: 'key', JWT_PRIVATE_KEY_FILE: 'key.pem', URL_SIGNING_KEY: 'x' };
    const environments = Object.fromEntries(applicationProcesses('', env).map((spec) => [spec.name, spec.env]));
    expect(environments).deep.equal({ api: env, worker: { URL_SIGNING_KEY: 'x' } });
  });

  it('are ready each by itself, also while Temporal is away', async () => {
    for (const { name, isReady } of applicationProcesses(apiUrl, {})) expect(await isReady(), name).to.equal(true);
  });

  it('serve once both work', async () => {
    const probed = once(server, 'request');
    const serving = waitUntilServing(apiUrl, { say: () => undefined, logPath });
    await probed;
    hasWorkers = true;
    await serving;
  });

  it('have not started when something is missing for too long, which is named with its last error', async () => {
    const failureNow = () => {
      return waitUntilServing(apiUrl, { say: () => undefined, logPath, timeoutMs: 100 }).catch(
        (error: unknown) => error,
      );
    };
    await writeFile(logPath('worker'), '{"level":30,"msg":"hello"}\n');
    const silent = await failureNow();
    expect(silent).to.be.instanceOf(StartFailure);
    expect(silent).to.have.property(
      'message',
      `The service was not ready within 0.1 s. Failed checks: workers. See ${logPath('worker')}.`,
    );
    await appendFile(
      logPath('worker'),
      '{"level":40,"msg":"waiting","err":{"message":"refused"}}\n{"level":30}\nno JSON\n',
    );
    expect(await failureNow()).to.have.property(
      'message',
      `The service was not ready within 0.1 s. Failed checks: workers. The last error in ${logPath('worker')}: waiting: refused`,
    );
  });
});
