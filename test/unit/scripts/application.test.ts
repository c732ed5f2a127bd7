import { once } from 'node:events';
import { appendFile, writeFile } from 'node:fs/promises';
import { mock } from 'node:test';
import { expect } from 'chai';
import { serveLocally } from '#test/support/local-server.ts';
import { useTemporaryFolder } from '#test/support/temporary-folder.ts';
import { applicationProcesses, waitUntilServing } from '../../../scripts/launchers/application.ts';
import { StartFailure } from '../../../scripts/supervisor/start-failure.ts';

describe('API and worker started by npm start', () => {
  let api: Awaited<ReturnType<typeof serveLocally>>;
  let hasWorkers: boolean;
  const pathOf = useTemporaryFolder();
  const logPath = (name: string) => pathOf(`${name}.log`);

  beforeEach(async () => {
    // Each probe has its own timeout of about a second.
    mock.method(AbortSignal, 'timeout', () => new AbortController().signal);
    hasWorkers = false;
    api = await serveLocally(({ url }, response) => {
      const isOk = url === '/healthz' || (url === '/readyz' && hasWorkers);
      response.writeHead(isOk ? 200 : 503).end(JSON.stringify({ checks: { database: true, workers: hasWorkers } }));
    });
  });
  afterEach(() => {
    mock.restoreAll();
    return api.close();
  });

  it('become ready independently, and only the API gets the signing key for access tokens', async () => {
    const env = { JWT_PRIVATE_KEY: 'key', JWT_PRIVATE_KEY_FILE: 'key.pem', URL_SIGNING_KEY: 'x' };
    const processes = applicationProcesses(api.baseUrl, env);
    for (const { name, isReady } of processes) expect(await isReady(), name).equal(true);
    const environments = Object.fromEntries(processes.map((spec) => [spec.name, spec.env]));
    expect(environments).deep.equal({ api: env, worker: { URL_SIGNING_KEY: 'x' } });
  });

  it('count as started once both are ready', async () => {
    const probed = once(api.server, 'request');
    const serving = waitUntilServing(api.baseUrl, { say: () => undefined, logPath });
    await probed;
    hasWorkers = true;
    await serving;
  });

  it('fail to start if a check fails for too long, with an error that names the check and its cause', async () => {
    const failureNow = () =>
      waitUntilServing(api.baseUrl, { say: () => undefined, logPath, timeoutMs: 100 }).catch((error: unknown) => error);
    const late = 'The service was not ready within 0.1 s. Failed checks: workers.';
    const log = logPath('worker');
    await writeFile(log, '{"level":30,"msg":"hello"}\n');
    expect(await failureNow())
      .instanceOf(StartFailure)
      .property('message', `${late} See ${log}.`);
    await appendFile(log, '{"level":40,"msg":"waiting","err":{"message":"refused"}}\n{"level":30}\nno JSON\n');
    expect(await failureNow()).property('message', `${late} The last error in ${log}: waiting: refused`);
  });
});
