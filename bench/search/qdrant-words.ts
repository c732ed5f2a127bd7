import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { readTestServiceSettings } from '../../scripts/settings.ts';
import { BM25_B, BM25_K1 } from '../../src/domain/retrieval/bm25.ts';

export type WordedChunk = { id: string; acl: readonly string[]; words: readonly string[] };

/** BM25 with sparse vectors: each chunk stores its term weights, and Qdrant applies the idf. */
export type QdrantWords = {
  /** Returns ids, best first, and the milliseconds inside Qdrant, without the transport. */
  search(query: {
    terms: readonly string[];
    acl: readonly string[];
    limit: number;
  }): Promise<{ ids: string[]; ms: number }>;
  stop(): Promise<void>;
};

const chunksAtOnce = 2_000;

/** @param averageLength mean number of terms in a chunk; the stored weights depend on it */
export async function startQdrantWords(chunks: Iterable<WordedChunk>, averageLength: number): Promise<QdrantWords> {
  const { toolsDir } = readTestServiceSettings(process.env);
  const child = spawn('python3', ['-B', join(import.meta.dirname, 'qdrant_words.py')], {
    env: { PATH: process.env.PATH, PYTHONPATH: toolsDir },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const ask = async (question: unknown) => {
    child.stdin.write(`${JSON.stringify(question)}\n`);
    const { value, done } = await answers.next();
    if (done) throw new Error('The Qdrant process exited before it answered.');
    return JSON.parse(value);
  };
  const numbers = new Map<string, number>();
  const numberOf = (term: string) => {
    const number = numbers.get(term) ?? numbers.size;
    numbers.set(term, number);
    return number;
  };

  let batch: unknown[] = [];
  const send = async () => {
    await ask({ points: batch });
    batch = [];
  };
  for (const { id, acl, words } of chunks) {
    const frequencies = new Map<number, number>();
    for (const word of words) frequencies.set(numberOf(word), (frequencies.get(numberOf(word)) ?? 0) + 1);
    const norm = BM25_K1 * (1 - BM25_B + (BM25_B * words.length) / averageLength);
    const values = Array.from(frequencies.values(), (frequency) => (frequency * (BM25_K1 + 1)) / (frequency + norm));
    batch.push({ id, acl, indices: [...frequencies.keys()], values });
    if (batch.length === chunksAtOnce) await send();
  }
  await send();
  await ask({ ready: true });

  return {
    search: async ({ terms, acl, limit }) => {
      const indices = [...new Set(terms.map(numberOf))];
      return ask({ query: { indices, values: indices.map(() => 1) }, acl, limit });
    },
    stop: async () => {
      child.stdin.end();
      if (child.exitCode === null) await once(child, 'exit');
    },
  };
}
