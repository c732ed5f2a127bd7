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

/** Private and special addresses in all spellings, names that may resolve to them, other ports and other protocols. */
const refusedUrls: Record<string, string[]> = {
  'IPv4 loopback': ['127.0.0.1', '127.255.3.4', '2130706433', '0177.0.0.1', '0x7f000001', '127.1', '１２７.０.０.１'],
  'IPv6 loopback': ['[::1]', '[::ffff:127.0.0.1]', '[::ffff:7f00:1]', '[::127.0.0.1]'],
  'loopback in translated addresses': ['[64:ff9b::7f00:1]', '[64:ff9b:1::7f00:1]', '[2002:7f00:1::]'],
  'loopback by name': ['localhost', 'db.localhost', 'localhost.'],
  'unspecified addresses': ['0.0.0.0', '[::]'],
  'the metadata service of a cloud': [
    ...['169.254.169.254/latest/meta-data/', '[fd00:ec2::254]', 'metadata.google.internal/computeMetadata/v1/'],
    ...['168.63.129.16', '100.100.100.200', '[2001:0:4136:e378:8000:63bf:5601:5601]'],
  ],
  'private networks': ['10.1.2.3', '172.16.0.1', '192.168.1.1', '[fc00::1]', '[fec0::1]'],
  'the local link': ['[fe80::1]', '[fe80::1%25eth0]'],
  'multicast and broadcast': ['224.0.0.1', '[ff02::1]', '255.255.255.255'],
  'reserved ranges': ['192.0.2.1', '198.18.0.1'],
  'host names of the local network': ['postgres', 'printer.local'],
  'ports other than those of HTTP': ['example.com:22', '93.184.215.14:5432'],
  'a URL with credentials': ['user:secret@example.com', 'example.com@127.0.0.1'],
  'protocols other than HTTP': [
    ...['file:///etc/passwd', 'FiLe:///etc/passwd', 'ftp://example.com/', 'gopher://example.com:70/1'],
    ...['data:text/html,hello', 'javascript:alert(1)', 'hTTp://127.0.0.1/', 'http://'],
  ],
};

describe('a guarded fetch', () => {
  let site: WebSite;
  before(async () => {
    site = await startWebSite();
  });
  after(() => site.close());

  type Options = { resolve?: ResolveHost; timeoutMs?: number };
  const noNames: ResolveHost = async () => {
    throw new Error('there is no name server');
  };
  const fetcher = ({ resolve = noNames, timeoutMs = 10_000 }: Options = {}) =>
    createGuardedFetch({ agent: createGuardedAgent({ allow: [site.place], resolve }), timeoutMs });
  const read = async (url: string, options: Options = {}) => {
    const { content, ...facts } = await fetcher(options).fetch(url, { limitBytes });
    return { ...facts, text: await text(content) };
  };
  const refusal = async (url: string, options: Options = {}) => {
    const error = await read(url, options).catch((reason: unknown) => reason);
    if (!(error instanceof AppError)) throw new Error(`${url} was fetched`, { cause: error });
    return `${error.code}: ${error.message}`;
  };
  const notAllowed = /^url_not_allowed: /;
  const unreachable = /^url_unreachable: /;

  for (const [what, targets] of Object.entries(refusedUrls)) {
    it(`refuses ${what}, also as the target of a redirect`, async () => {
      for (const url of what === 'protocols other than HTTP' ? targets : targets.map((target) => `http://${target}`)) {
        expect(await refusal(url), url).match(notAllowed);
        expect(await refusal(site.page(redirectTo(url))), url).match(notAllowed);
      }
    });
  }

  it('accepts public IPs, and rejects unlisted local ports and any host that also has a private IP', async () => {
    const open = ['93.184.215.14', '1.1.1.1', '2606:4700:4700::1111', '100.63.0.1', '172.32.0.1'];
    expect(open.filter(isPublicAddress)).deep.equal(open);
    for (const addresses of [['93.184.215.14', '10.0.0.1'], ['::ffff:10.0.0.1']]) {
      expect(await refusal('http://example.com/', { resolve: async () => addresses })).match(notAllowed);
    }
    expect(await refusal('http://127.0.0.1:1/')).match(notAllowed);
  });

  it('connects to the IP address that it has checked, even if DNS then returns another address', async () => {
    const answers = [['93.184.215.14'], ['127.0.0.1']];
    const lookup = createPublicAddressLookup(async () => answers.shift() ?? []);
    const dialled = () =>
      new Promise((resolve, reject) => {
        lookup('rebind.example.com', { all: true }, (error, found) => (error ? reject(error) : resolve(found)));
      });
    expect(await dialled()).deep.equal([{ address: '93.184.215.14', family: 4 }]);
    expect(await appErrorCode(dialled())).equal('url_not_allowed');
  });

  it('returns the content with its final URL, media type and file name, and sends no cookies and no Referer', async () => {
    const mediaType = 'text/plain; charset=koi8-r';
    const headers = { 'content-type': mediaType, 'content-disposition': 'inline; filename="a b.txt"' };
    const page = site.page(answerWith('Fox', headers));
    const redirect = { location: `${page}?v=1#part`, 'set-cookie': 'a=b' };
    const found = await read(site.page((response) => response.writeHead(302, redirect).end()));
    expect(found).deep.equal({ finalUrl: `${page}?v=1`, mediaType, fileName: 'a b.txt', text: 'Fox' });
    const sent = site.requests.at(-1)?.headers;
    expect(sent).include({ 'user-agent': 'AgentConversationService', accept: '*/*' });
    expect(sent).not.any.keys('cookie', 'referer', 'authorization');
  });

  it('follows at most three redirects, also to a relative address', async () => {
    const end = site.page(answerWith('end'));
    const three = [301, 303, 308].reduce((next, status) => site.page(redirectTo(next, status)), end);
    expect((await read(three)).text).equal('end');
    expect(await refusal(site.page(redirectTo(three, 307)))).match(/^url_unreachable: .*more than 3/);
    expect(await refusal(site.page(redirectTo('/loop'), '/loop'))).match(unreachable);
    expect(await refusal(site.page((response) => response.writeHead(302).end()))).match(/^url_unreachable: .*302/);
    site.page(answerWith('beside'), '/folder/beside');
    expect((await read(site.page(redirectTo('beside'), '/folder/start'))).text).equal('beside');
  });

  it('fails with the status of an error response in its message, and fails if a response ends early', async () => {
    for (const status of [206, 304, 401, 403, 404, 410, 429, 500, 503]) {
      const page = site.page(answerWith('', {}, status));
      expect(await refusal(page)).match(new RegExp(`^url_unreachable: .*${status}`));
    }
    for (const headers of [{ 'content-length': 100 }, {}]) {
      const cut = site.page((response) => {
        response.writeHead(200, headers);
        response.write('half', () => response.destroy());
      });
      expect(await refusal(cut)).match(unreachable);
    }
  });

  it('unpacks gzip once, rejects other encodings, and takes an invalid type as application/octet-stream', async () => {
    const long = 'fox '.repeat(1_000);
    expect((await read(site.page(answerWith(gzipSync(long), { 'content-encoding': 'gzip' })))).text).equal(long);
    for (const [content, encoding] of [
      ['x', 'constructor'],
      [gzipSync(gzipSync(long)), 'gzip, gzip'],
      ['no gzip', 'gzip'],
      [brotliCompressSync('fox'), 'br'],
    ] as const) {
      expect(await refusal(site.page(answerWith(content, { 'content-encoding': encoding })))).match(unreachable);
    }
    expect(site.requests.at(-1)?.headers).include({ 'accept-encoding': 'gzip' });
    for (const type of ['constructor', '../text/html']) {
      const odd = await read(site.page(answerWith('x', { 'content-type': type })));
      expect(odd.mediaType).equal('application/octet-stream');
    }
  });

  it('limits the unpacked size, with or without a Content-Length', async () => {
    expect((await read(site.page(answerWith(Buffer.alloc(limitBytes, 'x'))))).text).length(limitBytes);
    const bomb = gzipSync(Buffer.alloc(limitBytes * 20));
    expect(bomb.length).below(limitBytes / 10);
    for (const page of [
      site.page((response) => response.writeHead(200, { 'content-length': limitBytes + 1 }).write('x')),
      site.page((response) => {
        const more = () => {
          while (!response.destroyed && response.write(Buffer.alloc(10_000)));
        };
        response.on('drain', more);
        more();
      }),
      site.page(answerWith(bomb, { 'content-encoding': 'gzip' })),
    ]) {
      expect(await refusal(page)).match(/^payload_too_large: /);
    }
  });

  it('times out on a silent or slow server, and stops with the signal of the caller', async () => {
    const silent = site.page(() => {});
    const slow = site.page((response) => {
      const drip = setInterval(() => response.write('x'), 20);
      response.once('close', () => clearInterval(drip));
    });
    for (const page of [silent, slow]) {
      expect(await refusal(page, { timeoutMs: 200 })).match(/^url_unreachable: .*0.2 seconds/);
    }
    const leaving = new AbortController();
    const begun = site.page((response) => response.write('x'));
    const { content } = await fetcher().fetch(begun, { limitBytes, signal: leaving.signal });
    leaving.abort(new Error('not wanted'));
    expect(await buffer(content).catch((error: Error) => error.message)).equal('not wanted');
  });

  it('does not reveal the URL in errors', async () => {
    const answers = await Promise.all([
      refusal('http://127.0.0.1/?token=canary'),
      refusal(`${site.page(answerWith('', {}, 404))}?token=canary`),
      refusal('http://example.com/?token=canary'),
      refusal(site.page(redirectTo('http://canary:canary@example.com/?token=canary'))),
    ]);
    expect(answers.join('\n')).not.contain('canary');
  });

  it('rejects a body in too many small pieces, and too many interim responses', async () => {
    const pieces = `Transfer-Encoding: chunked\r\n\r\n${'1\r\na\r\n'.repeat(30_000)}0\r\n\r\n`;
    const hints = 'HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n'.repeat(11);
    for (const [answer, reason] of [
      [`HTTP/1.1 200 OK\r\n${pieces}`, 'The server sends the content in too many small pieces.'],
      [`${hints}HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n`, 'The server sends more than 10 interim responses.'],
    ] as const) {
      const page = site.page((response) => response.socket?.end(answer));
      expect(await refusal(page)).equal(`url_unreachable: ${reason}`);
    }
  });
});
