import { readFile } from 'node:fs/promises';
import { toUnitLength } from '#src/domain/documents/embedding.ts';
import type { TopicWord, TopicWordIndex } from '#src/ports/models.ts';

/**
 * Vector components are multiplied by this factor and stored as int8, so components above 127 / 400 are clamped;
 * components of unit vectors hardly get that large.
 */
export const topicVectorQuantizationScale = 400;

/** Finds topic words near a vector. scripts/build-topic-words.ts packages their vectors (20 MB). */
export function createTopicWordIndex({ model }: { model: string }): TopicWordIndex {
  let loading: Promise<TopicWord[]> | undefined;

  return {
    async nearest(relevance, limit) {
      loading ??= load(model).catch((error: unknown) => {
        // Clears the failed load, so that the next call loads again: a failure such as too many open files is
        // temporary.
        loading = undefined;
        throw error;
      });
      const ranked = (await loading).map((entry) => ({ entry, relevance: relevance(entry.vector) }));
      return ranked
        .sort((a, b) => b.relevance - a.relevance)
        .slice(0, limit)
        .map(({ entry }) => entry);
    },
  };
}

async function load(model: string): Promise<TopicWord[]> {
  const folder = new URL('topic-words/', import.meta.url);
  const [list, bytes] = await Promise.all([
    readFile(new URL('words.json', folder), 'utf8'),
    readFile(new URL(`${model}.bin`, folder)),
  ]);
  const words = (JSON.parse(list) as { words: string }).words.split(', ');
  const components = new Int8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const dimensions = components.length / words.length;
  return words.map((word, index) => ({
    word,
    vector: toUnitLength(Float32Array.from(components.subarray(index * dimensions, (index + 1) * dimensions))),
  }));
}
