import { setTimeout as delay } from 'node:timers/promises';

export type EmbedTexts = (texts: readonly string[]) => Promise<Float32Array[]>;

const textsOfCall = 64;

export function createEmbedTexts({ baseUrl, model }: { baseUrl: string; model: string }): EmbedTexts {
  return async (texts) => {
    const vectors: Float32Array[] = [];
    // Lets Node process closed sockets, so that the next request does not reuse a connection that the server has
    // closed.
    await delay(1);
    for (let start = 0; start < texts.length; start += textsOfCall) {
      const response = await fetch(`${baseUrl}/embeddings`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ model, input: texts.slice(start, start + textsOfCall), encoding_format: 'float' }),
      });
      if (!response.ok) throw new Error(`${baseUrl}/embeddings answered ${response.status}: ${await response.text()}`);
      const answer: { data: { embedding: number[] }[] } = JSON.parse(await response.text());
      vectors.push(...answer.data.map((item) => Float32Array.from(item.embedding)));
    }
    return vectors;
  };
}
