import type { IncomingMessage } from 'node:http';
import { json } from 'node:stream/consumers';
import { serveLocally } from '../local-server.ts';
import { seededRandom } from '../search/random.ts';

const model = 'fixed-1';
const dimensions = 384;
const vectorCount = 500;

export type FixedEmbedder = {
  /** Base URL of the fake provider, ending in /v1. */
  baseUrl: string;
  model: string;
  textCount(): number;
  close(): Promise<void>;
};

/** Starts a fake embedding provider that returns precomputed vectors in rotation. */
export async function startFixedEmbedder(): Promise<FixedEmbedder> {
  const random = seededRandom(3);
  const vectors = Array.from({ length: vectorCount }, () => {
    const vector = Float32Array.from({ length: dimensions }, random.normal);
    return Buffer.from(vector.buffer).toString('base64');
  });
  let textCount = 0;

  async function embed(request: IncomingMessage): Promise<object> {
    const { input } = (await json(request)) as { input: string[] };
    const data = input.map((_, index) => ({ index, embedding: vectors[(textCount + index) % vectorCount] }));
    textCount += input.length;
    return { object: 'list', model, data, usage: { prompt_tokens: 0, total_tokens: 0 } };
  }

  const { address, close } = await serveLocally((request, response) => {
    const answer = request.url === '/v1/embeddings' ? embed(request) : { object: 'list', data: [{ id: model }] };
    Promise.resolve(answer).then(
      (body) => response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body)),
      () => response.destroy(),
    );
  });

  return {
    baseUrl: `http://${address}/v1`,
    model,
    textCount: () => textCount,
    close,
  };
}
