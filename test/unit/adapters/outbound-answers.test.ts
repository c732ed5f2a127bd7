import { expect } from 'chai';
import type { Agent } from 'undici';
import { createS3Connector } from '#src/adapters/connectors/s3-connector.ts';
import { createGuardedAgent } from '#src/adapters/web/guarded-agent.ts';
import { AppError } from '#src/errors.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { isFullRun } from '#test/support/fault-run.ts';
import {
  type HostileKind,
  type HostileServer,
  hostileKinds,
  slowKinds,
  startHostileServer,
} from '#test/support/hostile-server.ts';
import { type OutboundClients, openOutboundClients, outboundClientNames } from '#test/support/outbound-clients.ts';
import { until } from '#test/support/until.ts';
import { answerWith, startWebSite, type WebSite } from '#test/support/web-site.ts';

/** The limits of the clients are 1 to 2 MB; the rest waits in the buffers of two sockets. */
const maxSentBytes = 24_000_000;
/** Longer than mocha waits: only the slow kinds end by a deadline, also on a machine that stands still for a minute. */
const patientMs = 600_000;
/** Sound ones before the hostile one, and redirects. */
const maxRequests = 8;

type Place = { kind: HostileKind; server: HostileServer; outbound: OutboundClients };

describe('hostile answers to outbound calls', () => {
  const kinds = Object.keys(hostileKinds) as HostileKind[];
  let places: Place[];
  before(async () => {
    places = await Promise.all(
      kinds.map(async (kind) => {
        const server = await startHostileServer();
        const timeMs = slowKinds.includes(kind) ? 200 : patientMs;
        return { kind, server, outbound: await openOutboundClients({ place: server.place, timeMs }) };
      }),
    );
  });
  after(() =>
    Promise.all(
      places.map(async ({ server, outbound }) => {
        await outbound.close();
        await server.close();
      }),
    ),
  );

  outboundClientNames.forEach((name, position) => {
    it(`${name}: each ends with its error, and after a limited number of bytes`, async () => {
      const outcomes = await Promise.all(
        ofClient(places, position).map(async ({ kind, server, outbound }) => {
          const { answer, sound, call, codes } = outbound.clients[name];
          server.behave(kind, answer, sound);
          const expected = kind in codes ? codes[kind] : codes.otherwise;
          const outcome = expected === null ? await call().then(() => null) : await appErrorCode(call());
          await until('the client hangs up', async () => server.underWay() === 0);
          expect(server.sentBytes(), `${kind}: bytes`).below(maxSentBytes);
          expect(server.requests(), `${kind}: requests`).most(maxRequests);
          return { kind, outcome, isExpected: [expected].flat().includes(outcome) };
        }),
      );
      expect(outcomes.filter(({ isExpected }) => !isExpected)).deep.equal([]);
    });
  });
});

/** All kinds take half a minute: in the everyday run each client gets every fourth, and clients in a row get all. */
function ofClient(places: readonly Place[], position: number): Place[] {
  return isFullRun ? [...places] : places.filter((_, index) => (index + position) % 4 === 0);
}

describe('responses of an S3 endpoint', () => {
  const entry = (key: string) => `<Contents><Key>${key}</Key><Size>1</Size></Contents>`;
  const listing = (...keys: string[]) =>
    `<ListBucketResult><Name>b</Name>${keys.map(entry).join('')}</ListBucketResult>`;
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

  async function listBucket(bucket: string) {
    const keys = { accessKeyId: 'AKIA', secretAccessKey: 'secret', sessionToken: null, region: 'us-east-1' };
    const place = { bucket, prefix: '', endpoint: `http://${site.place}`, forcePathStyle: true };
    return createS3Connector({ agent, baseUrl: null }).list({ kind: 'keys', ...keys, ...place }, { path: '' }, null);
  }
  async function list(answer: string, status = 200) {
    const bucket = `bucket-${site.requests.length}`;
    site.page(answerWith(answer, { 'content-type': 'application/xml' }, status), `/${bucket}/`);
    return listBucket(bucket);
  }
  const failure = async (answer: string, status?: number) => {
    const error = await list(answer, status).catch((reason: unknown) => reason);
    return error instanceof AppError ? `${error.code}: ${error.message}` : error;
  };

  it('lists pages of 300 objects', async () => {
    expect((await list(listing('a', 'b'))).files.map(({ name }) => name)).deep.equal(['a', 'b']);
    expect(site.requests.at(-1)?.path).include('max-keys=300');
  });

  it('accepts up to 1,000 entries from an S3 server that ignores the page size, and refuses more', async () => {
    const keys = Array.from({ length: 1_001 }, (_, index) => `k${index}`);
    expect((await list(listing(...keys.slice(1)))).files).length(1_000);
    expect(await failure(listing(...keys))).match(
      /^provider_unavailable: The endpoint does not respond like an S3 server/,
    );
  });

  it('does not let the SDK parse a document type, for which its parser takes quadratic time', async () => {
    const answer = `${'<!DOCTYPE a>'.repeat(20_000)}${listing('a')}`;
    expect(await failure(answer)).match(/^provider_unavailable: The endpoint does not respond like an S3 server/);
  });

  it('refuses a response with many attributes, which take the parser half a second', async () => {
    const attributes = Array.from({ length: 10_001 }, (_, index) => `a${index}="1"`).join(' ');
    const answer = `<ListBucketResult><Name>b</Name><Contents ${attributes}><Key>a</Key></Contents></ListBucketResult>`;
    expect(await failure(answer)).equal('provider_unavailable: The response of the S3 endpoint is too large.');
  });

  it('accepts keys with many equals signs, such as those of partitioned tables', async () => {
    const keys = Array.from({ length: 1_000 }, (_, index) => `year=2026/month=11/day=24/region=eu/file=${index}`);
    expect((await list(listing(...keys))).files).length(1_000);
  });

  it('reports the status of an error response that is an HTML page', async () => {
    const page = '<!DOCTYPE html><html><body>Not found<br></body></html>';
    expect(await failure(page, 404)).equal('provider_rejected: The S3 endpoint responded with 404.');
    expect(await failure(page, 503)).match(/^provider_throttled/);
    expect(await failure(page, 500)).match(/^provider_unavailable/);
  });

  it('limits Retry-After to an hour', async () => {
    const bucket = 'throttled';
    site.page(answerWith('', { 'retry-after': '100000000' }, 503), `/${bucket}/`);
    const error = await listBucket(bucket).catch((reason: unknown) => reason);
    expect(error).property('retryAfterSeconds', 3_600);
  });

  it('refuses well-formed XML that is not a listing, which would look like an empty bucket', async () => {
    expect(await failure('<html><body>Hello</body></html>')).match(/^provider_unavailable: The endpoint does not/);
    expect((await list('<ListBucketResult><Name>b</Name><KeyCount>0</KeyCount></ListBucketResult>')).files).length(0);
  });
});
