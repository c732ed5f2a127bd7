import { once } from 'node:events';
import { createServer } from 'node:net';
import { expect } from 'chai';
import { ConfigError } from '#src/config.ts';
import { listen } from '#src/http/listen.ts';

describe('listen', () => {
  const settings = { host: 'HOST', port: 'PORT' };

  it('names the setting to be changed where the port is taken', async () => {
    const first = createServer();
    await listen(first, { host: '127.0.0.1', port: 0 }, settings);
    const { port } = Object(first.address());
    const failure = await listen(createServer(), { host: '127.0.0.1', port }, settings).catch((error) => error);
    expect(failure).instanceOf(ConfigError);
    expect(failure.message).equal(`wrong setting PORT: 127.0.0.1:${port} is taken by another process`);
    first.close();
    await once(first, 'close');
  });

  it('names it where the host is another machine', async () => {
    // Kept for documentation (RFC 5737): no machine has it.
    const failure = await listen(createServer(), { host: '192.0.2.1', port: 0 }, settings).catch((error) => error);
    expect(failure).instanceOf(ConfigError);
    expect(failure.message).equal('wrong setting HOST: 192.0.2.1:0 is no address of this machine');
  });
});
