import { createHash, randomBytes } from 'node:crypto';
import { request } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';

const PIECE_BYTES = 1024 ** 2;

export type Content = { sizeBytes: number; sha256: string; read(): Readable };

export function randomContent(megabytes: number): Content {
  const piece = randomBytes(PIECE_BYTES);
  const pieces = () => Array.from({ length: megabytes }, () => piece);
  const hash = createHash('sha256');
  for (const one of pieces()) hash.update(one);
  return { sizeBytes: megabytes * PIECE_BYTES, sha256: hash.digest('hex'), read: () => Readable.from(pieces()) };
}

type Target = { url: string; token?: string };

export async function send({ url, token }: Target, content: Content, form: boolean): Promise<string> {
  const boundary = 'b';
  const field = `--${boundary}\r\nContent-Disposition: form-data; name="ingest"\r\n\r\nfalse\r\n`;
  const head = `${field}--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="a.bin"\r\n\r\n`;
  const [before, after] = form ? [head, `\r\n--${boundary}--\r\n`] : ['', ''];
  const body = async function* () {
    if (before !== '') yield Buffer.from(before);
    yield* content.read();
    if (after !== '') yield Buffer.from(after);
  };
  const outgoing = request(url, {
    method: 'POST',
    headers: {
      'content-length': content.sizeBytes + before.length + after.length,
      ...(form && { 'content-type': `multipart/form-data; boundary=${boundary}` }),
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
    },
  });
  const answer = new Promise<Readable & { statusCode?: number | undefined }>((resolve, reject) => {
    outgoing.on('response', resolve).on('error', reject);
  });
  await pipeline(body, outgoing);
  const response = await answer;
  const text = Buffer.concat(await response.toArray()).toString();
  if ((response.statusCode ?? 500) >= 300) throw new Error(`${url} answered ${response.statusCode}: ${text}`);
  return text;
}

export async function receive({ url, token }: Target, content: Content): Promise<void> {
  const response = await fetch(url, token === undefined ? {} : { headers: { authorization: `Bearer ${token}` } });
  let sizeBytes = 0;
  for await (const piece of response.body ?? []) sizeBytes += piece.length;
  if (sizeBytes !== content.sizeBytes)
    throw new Error(`${url} answered ${response.status} with ${sizeBytes} bytes instead of ${content.sizeBytes}.`);
}
