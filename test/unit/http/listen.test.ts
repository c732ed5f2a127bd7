import { createServer } from 'node:net';
import { expect } from 'chai';
import { ConfigError } from '#src/config.ts';
import { listenOnPort } from '#src/http/server/http-server.ts';

describe('listenOnPort', () => {
  const settings = { host: 'HOST', port: 'PORT' };

  async function refusalAt(place: { host: string; port: number }): Promise<string> {
    const server = createServer();
    try {
      const failure = await listenOnPort(server, place, settings).catch((error: unknown) => error);
      expect(failure).instanceOf(ConfigError);
      return Object(failure).message;
    } finally {
      server.close();
    }
  }

  it('names the setting of the port when the port is in use', async () => {
    const first = createServer();
    try {
      await listenOnPort(first, { host: '127.0.0.1', port: 0 }, settings);
      const { port } = Object(first.address());
      const refusal = await refusalAt({ host: '127.0.0.1', port });
      expect(refusal).equal(`wrong setting PORT: port ${port} on 127.0.0.1 is already in use by another process`);
    } finally {
      first.close();
    }
  });

  // An address reserved for documentation (RFC 5737), and a link-local address without a zone.
  for (const host of ['192.0.2.1', 'fe80::1']) {
    it(`names the setting of the host for an address of another machine: ${host}`, async () => {
      expect(await refusalAt({ host, port: 0 })).equal(`wrong setting HOST: ${host} is not an address of this machine`);
    });
  }
});
