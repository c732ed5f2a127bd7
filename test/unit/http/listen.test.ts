import { createServer } from 'node:net';
import { expect } from 'chai';
import { ConfigError } from '#src/config.ts';
import { listen } from '#src/http/server/http-server.ts';

describe('listen', () => {
  const settings = { host: 'HOST', port: 'PORT' };

  async function refusalAt(place: { host: string; port: number }): Promise<string> {
    const server = createServer();
    try {
      const failure = await listen(server, place, settings).catch((error: unknown) => error);
      expect(failure).instanceOf(ConfigError);
      return Object(failure).message;
    } finally {
      server.close();
    }
  }

  it('names the setting to be changed where the port is taken', async () => {
    const first = createServer();
    try {
      await listen(first, { host: '127.0.0.1', port: 0 }, settings);
      const { port } = Object(first.address());
      const refusal = await refusalAt({ host: '127.0.0.1', port });
      expect(refusal).equal(`wrong setting PORT: port ${port} on 127.0.0.1 is already in use by another process`);
    } finally {
      first.close();
    }
  });

  // Of documentation (RFC 5737), which no machine has, and of a link that is not named.
  for (const host of ['192.0.2.1', 'fe80::1']) {
    it(`names it where the host is another machine: ${host}`, async () => {
      expect(await refusalAt({ host, port: 0 })).equal(`wrong setting HOST: ${host} is not an address of this machine`);
    });
  }
});
