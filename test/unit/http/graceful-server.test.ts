import { once } from 'node:events';
import { Agent, createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';
import { syncBuiltinESMExports } from 'node:module';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { mock } from 'node:test';
import { expect } from 'chai';
import { createGracefulServer, type GracefulServer } from '#src/http/server/http-server.ts';

describe('a server that shuts down', () => {
  let server: Server;
  let leaving: GracefulServer;
  let agent: Agent;
  let port: number;
  /** Responses that have begun and are ended by the test. */
  const begun: ServerResponse[] = [];

  beforeEach(async () => {
    begun.length = 0;
    agent = new Agent({ keepAlive: true, maxSockets: 1 });
    server = createServer((req, res) => {
      if (req.url !== '/stream') return void res.end('whole');
      res.writeHead(200).write('begun ');
      begun.push(res);
    });
    leaving = createGracefulServer(server);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    port = (server.address() as AddressInfo).port;
  });
  afterEach(() => {
    mock.timers.reset();
    syncBuiltinESMExports();
    agent.destroy();
    server.closeAllConnections();
    server.close();
  });

  const get = async (path: string) => {
    const asked = request({ port, path, agent }).end();
    const [answer] = (await once(asked, 'response')) as [IncomingMessage];
    return { isReused: asked.reusedSocket, connection: answer.headers.connection, answer };
  };

  it('keeps a connection that was promised keep-alive, and closes it with the next response', async () => {
    const stream = await get('/stream');
    leaving.announce();
    begun[0]?.end('and ended');
    expect(await text(stream.answer)).equal('begun and ended');
    const next = await get('/');
    expect([next.isReused, next.connection, await text(next.answer)]).deep.equal([true, 'close', 'whole']);
    expect((await get('/')).isReused).equal(false);
  });

  it('answers slow requests that arrive on open connections while it waits', async () => {
    mock.timers.enable({ apis: ['setTimeout'] });
    syncBuiltinESMExports();
    const lingerMs = 30;
    const first = await get('/stream');
    leaving.announce();
    const closed = leaving.close(60_000, lingerMs);
    begun[0]?.end('and ended');
    expect(await text(first.answer)).equal('begun and ended');
    const second = await get('/stream');
    expect(second.isReused).equal(true);
    mock.timers.tick(5 * lingerMs);
    await new Promise(setImmediate);
    begun[1]?.end('and ended');
    expect(await text(second.answer)).equal('begun and ended');
    await closed;
  });

  it('waits for open requests and aborts them after the timeout', async () => {
    const quick = await get('/stream');
    const closed = leaving.close(60_000);
    begun[0]?.end('and ended');
    expect(await text(quick.answer)).equal('begun and ended');
    await closed;

    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    port = (server.address() as AddressInfo).port;
    const endless = await get('/stream');
    const cut = text(endless.answer).catch((error: NodeJS.ErrnoException) => error.code);
    await leaving.close(0);
    expect(await cut).equal('ECONNRESET');
  });
});
