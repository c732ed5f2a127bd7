import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { expect } from 'chai';
import express from 'express';
import { pino } from 'pino';
import { type AppResponse, createRequestLog } from '#src/http/server/middleware.ts';
import { until } from '#test/support/until.ts';

describe('the request log', () => {
  let server: Server;
  let lines: string[];
  let status: number;

  beforeEach(async () => {
    lines = [];
    status = 200;
    const app = express();
    app.use(createRequestLog(pino({}, { write: (line) => lines.push(line) })));
    app.use((req, res: AppResponse) => {
      res.locals.route = req.path;
      if (status >= 400) res.locals.errorCode = 'service_unavailable';
      res.status(status).end();
    });
    server = createServer(app).listen(0, '127.0.0.1');
    await once(server, 'listening');
  });
  afterEach(() => {
    server.close();
    server.closeAllConnections();
  });

  async function ask(path: string): Promise<void> {
    const address = server.address();
    await fetch(`http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}${path}`);
  }

  it('has a line for each request except successful probes', async () => {
    await ask('/healthz');
    await ask('/readyz');
    await ask('/documents');
    status = 503;
    await ask('/readyz');
    await until('the last one is over', async () => lines.length > 1);
    expect(lines.map((line) => JSON.parse(line)).map(({ route, status, code }) => [route, status, code])).deep.equal([
      ['/documents', 200, undefined],
      ['/readyz', 503, 'service_unavailable'],
    ]);
  });
});
