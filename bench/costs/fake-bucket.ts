import { createHash } from 'node:crypto';
import { serveLocally } from '../local-server.ts';

export type FakeBucket = { endpoint: string; place: string; close(): Promise<void> };

/** Starts an S3 endpoint whose one bucket lists these files below a prefix and serves them. It checks no signature. */
export async function startFakeBucket(files: ReadonlyMap<string, string>): Promise<FakeBucket> {
  const { address, close } = await serveLocally((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://bucket');
    const [, bucket = '', ...key] = decodeURIComponent(pathname).split('/');
    const content = files.get(key.join('/'));
    if (content !== undefined) return response.writeHead(200, { ETag: `"${md5(content)}"` }).end(content);
    const wanted = searchParams.get('prefix') ?? '';
    const keys = [...files.keys()].filter((each) => each.startsWith(wanted));
    const from = Number(searchParams.get('continuation-token') ?? 0);
    const end = from + Number(searchParams.get('max-keys') ?? 1_000);
    const entries = keys.slice(from, end).map((each) => {
      const text = files.get(each) ?? '';
      return `<Contents><Key>${each}</Key><Size>${Buffer.byteLength(text)}</Size><ETag>"${md5(text)}"</ETag></Contents>`;
    });
    const more = end < keys.length ? `<NextContinuationToken>${end}</NextContinuationToken>` : '';
    const body = `<ListBucketResult><Name>${bucket}</Name><KeyCount>${entries.length}</KeyCount>${more}${entries.join('')}</ListBucketResult>`;
    response.writeHead(200, { 'content-type': 'application/xml' }).end(body);
  });
  return {
    endpoint: `http://${address}`,
    place: address,
    close,
  };
}

function md5(text: string): string {
  return createHash('md5').update(text).digest('hex');
}
