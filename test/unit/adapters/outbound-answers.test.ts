import { expect } from 'chai';
import type { Agent } from 'undici';
import { createS3Connector } from '#src/adapters/connectors/s3-connector.ts';
import { createGuardedAgent } from '#src/adapters/web/guarded-agent.ts';
import type { AppError } from '#src/errors.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import {
  type HostileKind,
  type HostileServer,
  hostileKinds,
  slowKinds,
  startHostileServer,
} from '#test/support/hostile-server.ts';
import { until } from '#test/support/until.ts';
import { answerWith, startWebSite, type WebSite } from '#test/support/web-site.ts';
import { type OutboundClients, openOutboundClients } from '#test/unit/adapters/outbound-clients.cases.ts';

/** The limits of the clients are 1 to 2 MB; the rest waits in the buffers of two sockets. */
const maxSentBytes = 24_000_000;
/** Longer than mocha waits: only the slow kinds end by a deadline, also on a machine that stands still for a minute. */
const patientMs = 600_000;
/** Valid ones before the hostile one, and redirects. */
const maxRequests = 8;

describe('hostile responses to outbound calls', () => {
  const kinds = Object.keys(hostileKinds) as HostileKind[];
  let places: { kind: HostileKind; server: HostileServer; outbound: OutboundClients }[];
  before(async () => {
    places = await Promise.all(
      kinds.map(async (kind) => {
        const server = await startHostileServer();
        const timeMs = slowKinds.includes(kind) ? 200 : patientMs;
        return { kind, server, outbound: openOutboundClients({ place: server.place, timeMs }) };
      }),
    );
  });
  after(async () => {
    for (const { server, outbound } of places) {
      await outbound.close();
      await server.close();
    }
  });

  it('make each client fail with an error code meant for such responses, after a limited number of bytes', async () => {
    for (const [position, name] of Object.keys(places[0]?.outbound.clients ?? {}).entries()) {
      // All kinds take half a minute: in the everyday run each client gets every fourth, and clients in a row get all. All of them with `--seed`.
      const tried = places.filter((_, index) => process.env.TEST_SEED !== undefined || (index + position) % 4 === 0);
      const outcomes = tried.map(async ({ kind, server, outbound }) => {
        const { answer, sound, call, codes } = outbound.clients[name] ?? expect.fail();
        server.behave(kind, answer, sound);
        const expected = [kind in codes ? codes[kind] : codes.otherwise].flat();
        const code = expected.includes(null) ? await call().then(() => null) : await appErrorCode(call());
        expect(expected, `${name}, ${kind}`).include(code);
        await until('the client disconnects', async () => server.underWay() === 0);
        expect(server.sentBytes(), `${name}, ${kind}: bytes`).below(maxSentBytes);
        expect(server.requests(), `${name}, ${kind}: requests`).most(maxRequests);
      });
      await Promise.all(outcomes);
    }
  });
});

describe('an object listing from an S3 endpoint', () => {
  const listing = (...keys: string[]) =>
    `<ListBucketResult><Name>b</Name>${keys.map((key) => `<Contents><Key>${key}</Key><Size>1</Size></Contents>`).join('')}</ListBucketResult>`;
  const numbers = (length: number, key: (n: number) => string) => Array.from({ length }, (_, n) => key(n));
  let site: WebSite;
  let agent: Agent;
  before(async () => {
    site = await startWebSite();
    agent = createGuardedAgent({ allow: [site.place] });
  });
  after(async () => {
    await agent.close();
    await site.close();
  });

  async function list(answer: string, status = 200, headers = {}) {
    const bucket = `bucket-${site.requests.length}`;
    site.page(answerWith(answer, { 'content-type': 'application/xml', ...headers }, status), `/${bucket}/`);
    const keys = { accessKeyId: 'AKIA', secretAccessKey: 'secret', sessionToken: null, region: 'us-east-1' };
    const place = { bucket, prefix: '', endpoint: `http://${site.place}`, forcePathStyle: true };
    return createS3Connector({ agent, baseUrl: null }).list({ kind: 'keys', ...keys, ...place }, { path: '' }, null);
  }
  const failure = (...answer: Parameters<typeof list>) =>
    list(...answer).then(
      () => expect.fail('it was accepted'),
      (error: AppError) => error,
    );

  it('asks for 300 objects per page, and accepts up to 1,000 from a server that ignores this', async () => {
    expect((await list(listing('a', 'b'))).files.map(({ name }) => name)).deep.equal(['a', 'b']);
    expect(site.requests.at(-1)?.path).include('max-keys=300');
    const partitions = numbers(1_000, (n) => `year=2026/month=11/day=24/region=eu/file=${n}`);
    expect((await list(listing(...partitions))).files).length(1_000);
    expect((await list('<ListBucketResult><Name>b</Name><KeyCount>0</KeyCount></ListBucketResult>')).files).length(0);
  });

  it('is rejected if it is malformed or would take the parser of the SDK too long', async () => {
    const page = '<!DOCTYPE html><html><body>Not found<br></body></html>';
    const attributes = numbers(10_001, (n) => `a${n}="1"`).join(' ');
    const noServer = /^The endpoint does not respond like an S3 server/;
    for (const [answer, status, code, message] of [
      [listing(...numbers(1_001, (n) => `k${n}`)), 200, 'provider_unavailable', noServer],
      // The parser takes quadratic time for document types, and half a second for many attributes.
      [`${'<!DOCTYPE a>'.repeat(20_000)}${listing('a')}`, 200, 'provider_unavailable', noServer],
      [`<ListBucketResult ${attributes}></ListBucketResult>`, 200, 'provider_unavailable', /is too large/],
      // It would look like an empty bucket.
      ['<html><body>Hello</body></html>', 200, 'provider_unavailable', noServer],
      [page, 404, 'provider_rejected', /responded with 404/],
      [page, 503, 'provider_throttled', /./],
      [page, 500, 'provider_unavailable', /./],
    ] as const) {
      const error = await failure(answer, status);
      expect(error, answer.slice(0, 60)).include({ code });
      expect(error.message).match(message);
    }
    expect(await failure('', 503, { 'retry-after': '100000000' })).property('retryAfterSeconds', 3_600);
  });
});
