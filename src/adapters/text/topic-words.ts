import { readFile } from 'node:fs/promises';
import { toUnitLength } from '#src/domain/documents/embedding.ts';
import type { TopicWord, TopicWords } from '#src/ports/models.ts';

/** Vectors are stored in a byte a dimension: no component of one that has hundreds comes near a third. */
export const vectorScale = 400;

/**
 * The list that ships with the application; scripts/build-topic-words.ts wrote it. To embed it takes a packaged model
 * most of a minute, so that its vectors ship, too: for each model that alignment can score with. They are read at the
 * first use, and take 20 MB from then on.
 */
export function createTopicWords({ model }: { model: string }): TopicWords {
  let loading: Promise<TopicWord[]> | undefined;

  return {
    async nearest(relevance, limit) {
      loading ??= load(model).catch((error: unknown) => {
        // A full table of open files passes.
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
