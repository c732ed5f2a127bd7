import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { buffer, text } from 'node:stream/consumers';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { expect } from 'chai';
import {
  createGuardedAgent,
  createPublicAddressLookup,
  isPublicAddress,
  type ResolveHost,
} from '#src/adapters/web/guarded-agent.ts';
import { createGuardedFetch } from '#src/adapters/web/guarded-fetch.ts';
import { AppError } from '#src/errors.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { answerWith, redirectTo, startWebSite, type WebSite } from '#test/support/web-site.ts';

const limitBytes = 1_000_000;

/** Private and special addresses, and names that may resolve to them. */
const hostile: Record<string, string> = {
  loopback: 'http://127.0.0.1/',
  'loopback by name': 'http://localhost/',
  'loopback by a name below': 'http://db.localhost/',
  'loopback with a last dot': 'http://localhost./',
  'loopback as one number': 'http://2130706433/',
  'loopback in octal': 'http://0177.0.0.1/',
  'loopback in hexadecimal': 'http://0x7f000001/',
  'loopback cut short': 'http://127.1/',
  'loopback in full-width digits': 'http://１２７.０.０.１/',
  'loopback elsewhere in its range': 'http://127.255.3.4/',
  'this host': 'http://0.0.0.0/',
  'this host, IPv6': 'http://[::]/',
  'loopback, IPv6': 'http://[::1]/',
  'loopback, IPv4-mapped': 'http://[::ffff:127.0.0.1]/',
  'loopback, IPv4-mapped in hexadecimal': 'http://[::ffff:7f00:1]/',
  'loopback, IPv4-compatible': 'http://[::127.0.0.1]/',
  'loopback, NAT64': 'http://[64:ff9b::7f00:1]/',
  'loopback, local NAT64': 'http://[64:ff9b:1::7f00:1]/',
  'loopback, 6to4': 'http://[2002:7f00:1::]/',
  'metadata, Teredo': 'http://[2001:0:4136:e378:8000:63bf:5601:5601]/',
  metadata: 'http://169.254.169.254/latest/meta-data/',
  'metadata, IPv6': 'http://[fd00:ec2::254]/',
  'metadata by name': 'http://metadata.google.internal/computeMetadata/v1/',
  'the host of an Azure machine': 'http://168.63.129.16/',
  'the metadata of Alibaba, carrier-grade NAT': 'http://100.100.100.200/',
  'a private network': 'http://10.1.2.3/',
  'another private network': 'http://172.16.0.1/',
  'a third private network': 'http://192.168.1.1/',
  'unique local': 'http://[fc00::1]/',
  'link local, IPv6': 'http://[fe80::1]/',
  'link local with a zone': 'http://[fe80::1%25eth0]/',
  'site local': 'http://[fec0::1]/',
  multicast: 'http://224.0.0.1/',
  'multicast, IPv6': 'http://[ff02::1]/',
  broadcast: 'http://255.255.255.255/',
  'for documentation': 'http://192.0.2.1/',
  'for benchmarks': 'http://198.18.0.1/',
  'a name without a dot': 'http://postgres/',
  'a name of the local network': 'http://printer.local/',
  'a file': 'file:///etc/passwd',
  ftp: 'ftp://example.com/',
  gopher: 'gopher://example.com:70/1',
  data: 'data:text/html,hello',
  javascript: 'javascript:alert(1)',
  'mixed case': 'FiLe:///etc/passwd',
  'mixed case of a scheme that is taken': 'hTTp://127.0.0.1/',
  'user and password': 'http://user:secret@example.com/',
  'a host that looks like another': 'http://example.com@127.0.0.1/',
  ssh: 'http://example.com:22/',
  postgres: 'http://93.184.215.14:5432/',
  'no address': 'http://',
};

describe('a guarded fetch', () => {
  let site: WebSite;
  before(async () => {
    site = await startWebSite();
  });
  after(() => site.close());

  const nobody: ResolveHost = async () => {
    throw new Error('there is no name server');
  };
  function fetcher(options: { resolve?: ResolveHost; timeoutMs?: number; allow?: string[] } = {}) {
    const { resolve = nobody, timeoutMs = 10_000, allow = [site.place] } = options;
    return createGuardedFetch({ agent: createGuardedAgent({ allow, resolve }), timeoutMs });
  }
  const read = async (url: string, options: Parameters<typeof fetcher>[0] = {}) => {
    const { content, ...facts } = await fetcher(options).fetch(url, { limitBytes });
    return { ...facts, text: await text(content) };
  };
  const refusal = async (url: string, options: Parameters<typeof fetcher>[0] = {}) => {
    const error = await read(url, options).catch((reason: unknown) => reason);
    if (!(error instanceof AppError)) throw new Error(`${url} was fetched`, { cause: error });
    return `${error.code}: ${error.message}`;
  };

  describe('refuses private addresses', () => {
    for (const [what, url] of Object.entries(hostile)) {
      it(what, async () => {
        expect(await refusal(url)).to.match(/^url_not_allowed: /);
        // Also refused as the target of a redirect.
        expect(await refusal(site.page(redirectTo(url)))).to.match(/^url_not_allowed: /);
      });
    }

    it('of a name that also has a public address', async () => {
      const resolve = async () => ['93.184.215.14', '10.0.0.1'];
      expect(await refusal('http://example.com/', { resolve })).to.match(/^url_not_allowed: /);
      const mapped = async () => ['::ffff:10.0.0.1'];
      expect(await refusal('http://example.com/', { resolve: mapped })).to.match(/^url_not_allowed: /);
    });

    it('of a name that changed after the lookup (DNS rebinding)', async () => {
      const answers = [['93.184.215.14'], ['127.0.0.1']];
      const lookup = createPublicAddressLookup(async () => answers.shift() ?? []);
      const dialled = () =>
        new Promise((resolve, reject) => {
          lookup('rebind.example.com', { all: true }, (error, found) => (error ? reject(error) : resolve(found)));
        });
      // Each connection looks the name up once, and connects to the checked address.
      expect(await dialled()).to.deep.equal([{ address: '93.184.215.14', family: 4 }]);
      expect(await appErrorCode(dialled())).to.equal('url_not_allowed');
    });

    it('with the same error whether or not a server is there', async () => {
      const closed = createServer().listen(0, '127.0.0.1');
      await once(closed, 'listening');
      const { port } = closed.address() as AddressInfo;
      closed.close();
      const answers = await Promise.all([
        refusal(`http://${site.place}/`, { allow: [] }),
        refusal(`http://127.0.0.1:${port}/`, { allow: [] }),
      ]);
      expect(answers[0]).to.equal(answers[1]);
      expect(await refusal('http://127.0.0.1/')).to.equal(await refusal('http://192.168.9.9/'));
      expect(await refusal('http://internal.example.com/', { resolve: async () => ['10.0.0.9'] })).to.equal(
        await refusal('http://127.0.0.1/'),
      );
    });

    it('of an allowed host at another port', async () => {
      expect(await refusal('http://127.0.0.1:1/')).to.match(/^url_not_allowed: /);
    });
  });

  it('allows public addresses', () => {
    for (const address of ['93.184.215.14', '1.1.1.1', '2606:4700:4700::1111', '100.63.0.1', '172.32.0.1']) {
      expect(isPublicAddress(address), address).to.equal(true);
    }
  });

  it('returns the content with its final URL, media type and file name', async () => {
    const page = site.page(
      answerWith('Fox', {
        'content-type': 'text/plain; charset=koi8-r',
        'content-disposition': 'inline; filename="a b.txt"',
      }),
    );
    const found = await read(site.page(redirectTo(`${page}?v=1#part`)));
    expect(found).to.deep.equal({
      finalUrl: `${page}?v=1`,
      mediaType: 'text/plain; charset=koi8-r',
      fileName: 'a b.txt',
      text: 'Fox',
    });
  });

  it('sends a User-Agent, but no cookies and no Referer', async () => {
    const last = site.page(answerWith('x'));
    await read(site.page((response) => response.writeHead(302, { location: last, 'set-cookie': 'a=b' }).end()));
    expect(site.requests.at(-1)?.headers).to.include({ 'user-agent': 'AgentConversationService', accept: '*/*' });
    expect(site.requests.at(-1)?.headers).to.not.have.any.keys('cookie', 'referer', 'authorization');
  });

  it('follows at most three redirects', async () => {
    const end = site.page(answerWith('end'));
    const three = [301, 303, 308].reduce((next, status) => site.page(redirectTo(next, status)), end);
    expect((await read(three)).text).to.equal('end');
    expect(await refusal(site.page(redirectTo(three, 307)))).to.match(/^url_unreachable: .*more than 3/);
    expect(await refusal(site.page(redirectTo('/loop'), '/loop'))).to.match(/^url_unreachable: /);
    expect(await refusal(site.page((response) => response.writeHead(302).end()))).to.match(/^url_unreachable: .*302/);
  });

  it('resolves a relative Location', async () => {
    site.page(answerWith('beside'), '/folder/beside');
    expect((await read(site.page(redirectTo('beside'), '/folder/start'))).text).to.equal('beside');
  });

  it('reports the status of an error response', async () => {
    for (const status of [304, 401, 403, 404, 410, 429, 500, 503]) {
      expect(await refusal(site.page(answerWith('', {}, status)))).to.match(
        new RegExp(`^url_unreachable: .*${status}`),
      );
    }
  });

  it('unpacks one layer of gzip', async () => {
    const long = 'fox '.repeat(1_000);
    expect((await read(site.page(answerWith(gzipSync(long), { 'content-encoding': 'gzip' })))).text).to.equal(long);
    for (const [said, type] of [
      ['constructor', 'constructor'],
      ['text', '../text/html'],
    ] as const) {
      const odd = site.page(answerWith('x', { 'content-type': type }));
      expect((await read(odd)).mediaType).to.equal('application/octet-stream');
      expect(await refusal(site.page(answerWith('x', { 'content-encoding': said })))).to.match(/^url_unreachable: /);
    }
    const twice = answerWith(gzipSync(gzipSync(long)), { 'content-encoding': 'gzip, gzip' });
    expect(await refusal(site.page(twice))).to.match(/^url_unreachable: /);
    const damaged = answerWith('no gzip', { 'content-encoding': 'gzip' });
    expect(await refusal(site.page(damaged))).to.match(/^url_unreachable: .*damaged/);
  });

  it('does not accept Brotli', async () => {
    let accepted: string | undefined;
    const page = site.page((response) => {
      accepted = response.req.headers['accept-encoding']?.toString();
      response.writeHead(200, { 'content-encoding': 'br' }).end(brotliCompressSync('fox'));
    });
    expect(await refusal(page)).to.match(/^url_unreachable: .*encoding/);
    expect(accepted).to.equal('gzip');
  });

  it('limits the unpacked size, with or without a Content-Length', async () => {
    const fits = Buffer.alloc(limitBytes, 'x');
    expect((await read(site.page(answerWith(fits)))).text).to.have.length(limitBytes);
    const said = site.page((response) => response.writeHead(200, { 'content-length': limitBytes + 1 }).write('x'));
    expect(await refusal(said)).to.match(/^payload_too_large: /);
    const endless = site.page((response) => {
      const more = () => {
        while (!response.destroyed && response.write(Buffer.alloc(10_000)));
      };
      response.on('drain', more);
      more();
    });
    expect(await refusal(endless)).to.match(/^payload_too_large: /);
    const bomb = gzipSync(Buffer.alloc(limitBytes * 20));
    expect(bomb.length).to.be.below(limitBytes / 10);
    expect(await refusal(site.page(answerWith(bomb, { 'content-encoding': 'gzip' })))).to.match(/^payload_too_large: /);
  });

  it('rejects a partial response (206)', async () => {
    const cut = site.page((response) => {
      response.writeHead(200, { 'content-length': 100 });
      response.write('half', () => response.destroy());
    });
    expect(await refusal(cut)).to.match(/^url_unreachable: /);
    const chunked = site.page((response) => {
      response.write('half', () => response.destroy());
    });
    expect(await refusal(chunked)).to.match(/^url_unreachable: /);
    expect(await refusal(site.page(answerWith('half', {}, 206)))).to.match(/^url_unreachable: .*206/);
  });

  it('times out on a silent or slow server, before and within the body', async () => {
    const silent = site.page(() => {});
    expect(await refusal(silent, { timeoutMs: 200 })).to.match(/^url_unreachable: .*0.2 seconds/);
    const slow = site.page((response) => {
      const drip = setInterval(() => response.write('x'), 20);
      response.once('close', () => clearInterval(drip));
    });
    expect(await refusal(slow, { timeoutMs: 200 })).to.match(/^url_unreachable: .*0.2 seconds/);
  });

  it('aborts with the signal of the caller', async () => {
    const leaving = new AbortController();
    const { content } = await fetcher().fetch(
      site.page((response) => response.write('x')),
      { limitBytes, signal: leaving.signal },
    );
    leaving.abort(new Error('not wanted'));
    expect(await buffer(content).catch((error: Error) => error.message)).to.equal('not wanted');
  });

  it('does not reveal the URL in errors', async () => {
    const secret = 'token=canary';
    const answers = await Promise.all([
      refusal(`http://127.0.0.1/?${secret}`),
      refusal(`${site.page(answerWith('', {}, 404))}?${secret}`),
      refusal(`http://example.com/?${secret}`),
      refusal(site.page(redirectTo(`http://canary:canary@example.com/?${secret}`))),
    ]);
    expect(answers.join('\n')).to.not.contain('canary');
    expect(answers[2]).to.match(/^url_unreachable: /);
  });

  describe('refuses responses that would keep the event loop busy', () => {
    const serve = async (write: (socket: Socket) => void) => {
      const server = createServer((socket) => {
        socket.on('error', () => {});
        socket.once('data', () => write(socket));
      }).listen(0, '127.0.0.1');
      await once(server, 'listening');
      const place = `127.0.0.1:${(server.address() as AddressInfo).port}`;
      try {
        return await refusal(`http://${place}/`, { allow: [place] });
      } finally {
        server.close();
      }
    };

    it('with a body in too many small pieces', async () => {
      const pieces = '1\r\na\r\n'.repeat(30_000);
      expect(
        await serve((socket) => socket.end(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${pieces}0\r\n\r\n`)),
      ).to.equal('url_unreachable: The server sends the content in too many small pieces.');
    });

    it('with more than ten interim responses', async () => {
      const hints = 'HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n'.repeat(11);
      expect(await serve((socket) => socket.end(`${hints}HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n`))).to.equal(
        'url_unreachable: The server sends more than 10 interim responses.',
      );
    });
  });
});
