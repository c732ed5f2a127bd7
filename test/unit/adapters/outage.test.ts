import { once } from 'node:events';
import { createServer } from 'node:net';
import { expect } from 'chai';
import { createDatabase } from '#src/adapters/postgres/database.ts';
import { isDatabaseOutage } from '#src/adapters/postgres/errors.ts';

describe('isDatabaseOutage', () => {
  async function failureAt(port: number): Promise<unknown> {
    const url = `postgres://nobody@127.0.0.1:${port}/nothing`;
    const db = createDatabase({ url, maxConnections: 1, applicationName: 'test' });
    try {
      return await db.raw('select 1').catch((error: unknown) => error);
    } finally {
      await db.destroy();
    }
  }

  it('recognizes a refused connection', async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = Object(server.address());
    server.close();
    await once(server, 'close');
    expect(isDatabaseOutage(await failureAt(port))).to.equal(true);
  });

  it('recognizes a closed connection', async () => {
    const server = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1');
    await once(server, 'listening');
    expect(isDatabaseOutage(await failureAt(Object(server.address()).port))).to.equal(true);
    server.close();
  });

  it('recognizes a connection that was lost within a transaction', () => {
    const message = 'ROLLBACK - Client has encountered a connection error and is not queryable';
    expect(isDatabaseOutage(new Error(message))).to.equal(true);
  });

  it('does not treat a wrong statement as an outage', () => {
    expect(isDatabaseOutage(Object.assign(new Error('syntax error'), { code: '42601' }))).to.equal(false);
    expect(isDatabaseOutage('text')).to.equal(false);
  });
});
