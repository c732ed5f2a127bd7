import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { expect } from 'chai';
import { application, untilServing } from '../../../scripts/launchers/application.ts';
import { StartFailure } from '../../../scripts/supervisor/start-failure.ts';

describe('API and worker under the supervisor', () => {
  let server: Server;
  let apiUrl: string;
  let hasWorkers: boolean;

  beforeEach(async () => {
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
  afterEach(() => {
    server.close();
    server.closeAllConnections();
  });

  it('are ready each by itself, also while Temporal is away', async () => {
    for (const { name, isReady } of application(apiUrl, {})) expect(await isReady(), name).to.equal(true);
  });

  it('serve once both work', async () => {
    const serving = untilServing(apiUrl);
    hasWorkers = true;
    await serving;
  });

  it('have not started when something is missing for too long, which is named', async () => {
    const failure: unknown = await untilServing(apiUrl, 100).catch((error: unknown) => error);
    expect(failure).to.be.instanceOf(StartFailure);
    expect(failure).to.have.property('message', 'Not ready within 0.1 s: workers. The logs say more.');
  });
});
