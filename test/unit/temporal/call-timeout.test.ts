import { once } from 'node:events';
import { createServer, type Http2Server } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { expect } from 'chai';
import { createTemporalConnection, type TemporalConnection } from '#src/temporal/connection.ts';

const UNIMPLEMENTED = '12';
const callTimeoutMs = 30_000;

describe('the RPC timeout of Temporal calls', () => {
  let server: Http2Server;
  let connection: TemporalConnection;
  /** The `grpc-timeout` header of the last call, in milliseconds. */
  let sentTimeoutMs: number;

  before(async () => {
    server = createServer();
    server.on('stream', (stream, headers) => {
      sentTimeoutMs = Number(/^(\d+)m$/.exec(String(headers['grpc-timeout']))?.[1]);
      const refusal = { ':status': 200, 'content-type': 'application/grpc', 'grpc-status': UNIMPLEMENTED };
      stream.respond(refusal, { endStream: true });
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    connection = createTemporalConnection({ address: `127.0.0.1:${port}`, namespace: 'default', callTimeoutMs });
  });
  after(async () => {
    await connection.close();
    server.close();
  });

  async function timeoutOf(minTimeoutMs?: number): Promise<number> {
    sentTimeoutMs = Number.NaN;
    const { workflowService } = connection.client;
    await connection.call(() => workflowService.getSystemInfo({}), minTimeoutMs).catch(() => undefined);
    return sentTimeoutMs;
  }

  it('is the configured timeout, or the timeout of a single call if that is longer', async () => {
    for (const minTimeoutMs of [undefined, 1]) {
      expect(await timeoutOf(minTimeoutMs)).within(callTimeoutMs / 2, callTimeoutMs);
    }
    expect(await timeoutOf(callTimeoutMs * 2)).within(callTimeoutMs * 1.5, callTimeoutMs * 2);
  });
});
