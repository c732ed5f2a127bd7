import { once } from 'node:events';
import { Agent, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';
import { syncBuiltinESMExports } from 'node:module';
import { createServer as createNetServer } from 'node:net';
import { text } from 'node:stream/consumers';
import { mock } from 'node:test';
import { expect } from 'chai';
import { pino } from 'pino';
import { ConfigError } from '#src/config.ts';
import { noContentAnswer } from '#src/http/response/answers.ts';
import { defineRoute } from '#src/http/routing/route.ts';
import { createGracefulServer, type GracefulServer, listenOnPort } from '#src/http/server/http-server.ts';
import { healthRoutes, readinessSchema } from '#src/http/server/service.routes.ts';
import { serveLocally } from '#test/support/local-server.ts';
import { done, routeAt, type ServedRoutes, serveRoutes } from '#test/support/served-routes.ts';
import { until } from '#test/support/until.ts';

describe('the readiness endpoint', () => {
  let served: ServedRoutes;
  const lines: string[] = [];
  let asked = 0;
  let isLeaving = false;
  before(async () => {
    const database = async () => {
      asked += 1;
      return true;
    };
    const broken = () => Promise.reject(new Error('not there'));
    const health = healthRoutes({ checks: { database, broken }, isShuttingDown: () => isLeaving });
    const empty = { access: 'public', responses: done, handle: () => noContentAnswer() } as const;
    const other = defineRoute({ ...routeAt('get', '/folders'), ...empty });
    served = await serveRoutes([...health, other], { logger: pino({}, { write: (line) => lines.push(line) }) });
  });
  after(() => served.close());
  afterEach(() => mock.timers.reset());

  const ask = async () => {
    const response = await fetch(`${served.baseUrl}/readyz`);
    expect([response.status, response.headers.get('cache-control')]).deep.equal([503, 'no-store']);
    return readinessSchema.parse(await response.json()).checks;
  };

  it('runs each check once for concurrent requests, and none during a shutdown', async () => {
    // The clock is stopped: an outcome is kept for a second.
    mock.timers.enable({ apis: ['Date', 'setTimeout'] });
    const answers = await Promise.all([ask(), ask()]);
    expect(answers).deep.equal(Array(2).fill({ database: true, broken: false, serving: true }));
    expect(asked).equal(1);
    isLeaving = true;
    expect(await ask()).deep.equal({ serving: false });
    isLeaving = false;
  });

  it('skips the check that the parameter `exclude` names', async () => {
    const response = await fetch(`${served.baseUrl}/readyz?exclude=broken`);
    expect(response.status).equal(200);
    expect(await response.json()).deep.equal({ status: 'ready', checks: { database: true, serving: true } });
    expect((await fetch(`${served.baseUrl}/readyz?exclude=nothing`)).status).equal(422);
  });

  it('writes to the request log only when a check fails', async () => {
    lines.length = 0;
    for (const path of ['/healthz', '/readyz?exclude=broken', '/folders', '/readyz'])
      await fetch(served.baseUrl + path);
    await until('the last one is over', async () => lines.length > 1);
    const logged = lines.map((line) => JSON.parse(line)).map(({ route, status }) => [route, status]);
    expect(logged).deep.equal([
      ['/folders', 204],
      ['/readyz', 503],
    ]);
  });
});

describe('a server that shuts down', () => {
  let server: Server;
  let leaving: GracefulServer;
  let agent: Agent;
  let baseUrl: string;
  /** Responses that have begun and are ended by the test. */
  let begun: ServerResponse[];

  beforeEach(async () => {
    begun = [];
    agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const local = await serveLocally((req, res) => {
      if (req.url !== '/stream') return void res.end('whole');
      res.writeHead(200).write('begun ');
      begun.push(res);
    });
    server = local.server;
    baseUrl = local.baseUrl;
    leaving = createGracefulServer(server);
  });
  afterEach(() => {
    mock.timers.reset();
    syncBuiltinESMExports();
    agent.destroy();
    server.closeAllConnections();
    server.close();
  });

  const get = async (path: string) => {
    const asked = request(baseUrl + path, { agent }).end();
    const [answer] = (await once(asked, 'response')) as [IncomingMessage];
    return { isReused: asked.reusedSocket, connection: answer.headers.connection, answer };
  };
  const end = async ({ answer }: { answer: IncomingMessage }, index = 0) => {
    begun[index]?.end('and ended');
    expect(await text(answer)).equal('begun and ended');
  };

  it('keeps a keep-alive connection open until the next response, then closes the connection', async () => {
    const stream = await get('/stream');
    leaving.announce();
    await end(stream);
    const next = await get('/');
    expect([next.isReused, next.connection, await text(next.answer)]).deep.equal([true, 'close', 'whole']);
    expect((await get('/')).isReused).equal(false);
  });

  it('answers slow requests that arrive on open connections during the shutdown', async () => {
    mock.timers.enable({ apis: ['setTimeout'] });
    syncBuiltinESMExports();
    const lingerMs = 30;
    const first = await get('/stream');
    leaving.announce();
    const closed = leaving.close(60_000, lingerMs);
    await end(first);
    const second = await get('/stream');
    expect(second.isReused).equal(true);
    mock.timers.tick(5 * lingerMs);
    await new Promise(setImmediate);
    await end(second, 1);
    await closed;
  });

  it('waits for open requests', async () => {
    const quick = await get('/stream');
    const closed = leaving.close(60_000);
    await end(quick);
    await closed;
  });

  it('aborts open requests after the timeout', async () => {
    const endless = await get('/stream');
    const cut = text(endless.answer).catch((error: NodeJS.ErrnoException) => error.code);
    await leaving.close(0);
    expect(await cut).equal('ECONNRESET');
  });
});

describe('starting to listen', () => {
  it('fails with the name of the setting if the address is in use or not of this machine', async () => {
    const settings = { host: 'HOST', port: 'PORT' };
    const first = createNetServer();
    await listenOnPort(first, { host: '127.0.0.1', port: 0 }, settings);
    const { port } = Object(first.address());
    // The last two are reserved for documentation (RFC 5737), and a link-local address without a zone.
    const refusals: Record<string, string> = {
      '127.0.0.1': `PORT: port ${port} on 127.0.0.1 is already in use by another process`,
      '192.0.2.1': 'HOST: 192.0.2.1 is not an address of this machine',
      'fe80::1': 'HOST: fe80::1 is not an address of this machine',
    };
    for (const [host, refusal] of Object.entries(refusals)) {
      const failure = await listenOnPort(createNetServer(), { host, port }, settings).catch((error: unknown) => error);
      expect(failure).instanceOf(ConfigError).property('message', `wrong setting ${refusal}`);
    }
    first.close();
  });
});
