import { once } from 'node:events';
import { createServer } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { expect } from 'chai';
import { createTemporalConnection } from '#src/temporal/connection.ts';

const UNIMPLEMENTED = '12';
const callTimeoutMs = 30_000;

describe('the RPC timeout of Temporal calls', () => {
  it('is the configured timeout, or the timeout of a single call if that is longer', async () => {
    const timeouts: number[] = [];
    const server = createServer().listen(0, '127.0.0.1');
    server.on('stream', (stream, headers) => {
      timeouts.push(Number(/^(\d+)m$/.exec(String(headers['grpc-timeout']))?.[1]));
      const refusal = { ':status': 200, 'content-type': 'application/grpc', 'grpc-status': UNIMPLEMENTED };
      stream.respond(refusal, { endStream: true });
    });
    await once(server, 'listening');
    const address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    const connection = createTemporalConnection({ address, namespace: 'default', callTimeoutMs });
    const { workflowService } = connection.client;
    for (const minTimeoutMs of [undefined, 1, callTimeoutMs * 2]) {
      await connection.call(() => workflowService.getSystemInfo({}), minTimeoutMs).catch(() => undefined);
    }
    await connection.close();
    server.close();
    const [configured = 0, tooShort = 0, longer = 0] = timeouts;
    expect(configured).within(callTimeoutMs / 2, callTimeoutMs);
    expect(tooShort).within(callTimeoutMs / 2, callTimeoutMs);
    expect(longer).within(callTimeoutMs * 1.5, callTimeoutMs * 2);
  });
});
