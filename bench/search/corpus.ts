import { v7 as uuidv7 } from 'uuid';
import { createTextAnalyzer } from '../../src/adapters/text/text-analyzer.ts';
import { contentStems } from '../../src/domain/text/words.ts';
import { readDataset } from '../retrieval/datasets.ts';
import { type Random, seededRandom } from './random.ts';

export const dimensions = 384;

/** Shares of the organization's documents in percent, each readable with its own access key. */
export const selectivities = [1, 3, 10, 40, 100] as const;

export const keyOf = (percent: number): string => `user:${percent}`;

export type CorpusChunk = { words: string[]; vector: Float32Array };

export type CorpusDocument = { id: string; acl: string[]; chunks: CorpusChunk[] };

export type CorpusQuery = { terms: string[]; vector: Float32Array };

export type SearchCorpus = {
  documents(chunkCount: number): Generator<CorpusDocument>;
  queries(count: number): CorpusQuery[];
};

/** Number of stems in a generated chunk of 400 tokens. */
const chunkWords = 150;
const subjects = 400;
const generalWords = 500;
/** Copies of the vocabulary: a large corpus has many more distinct content words than a small sample. */
const vocabularies = 20;

/**
 * Generates documents with the word frequencies of chroma_chunking (three real texts, 1.3 MB), with the words of their
 * subject more frequent. Each word but the most general ones stands for twenty, of which a subject has one. Vectors
 * cluster around their document, and documents around their subject. Queries are the questions of the data set.
 */
export function generateCorpus(seed: number): SearchCorpus {
  const random = seededRandom(seed);
  const analyze = createTextAnalyzer();
  const texts = ['finance.md', 'pubmed.md', 'wikitexts.md'].map((name) => readDataset('chroma_chunking', name));
  const words = texts.flatMap((text) => contentStems(analyze(text)));
  const general = new Set(mostFrequent(words, generalWords));
  const questions = readDataset('chroma_chunking', 'questions.csv')
    .split('\n')
    .flatMap((line) => /^"?([^"?]{30,}\?)/.exec(line)?.[1] ?? []);
  const centers = Array.from({ length: subjects }, () => direction(random, undefined, 1));

  const wordOf = (word: string, subject: number) => (general.has(word) ? word : `${word}${subject % vocabularies}`);
  const anyWord = (subject: number) => wordOf(words[random.below(words.length)] ?? '', subject);

  return {
    *documents(chunkCount) {
      for (let made = 0; made < chunkCount; ) {
        const size = Math.min(1 + Math.floor(200 ** random.next()), chunkCount - made);
        made += size;
        const luck = random.next() * 100;
        const subject = random.below(subjects);
        const center = direction(random, centers[subject], 0.7);
        const ownWords = Array.from({ length: 150 }, () => anyWord(subject));
        yield {
          id: uuidv7(),
          acl: selectivities.filter((percent) => luck < percent).map(keyOf),
          chunks: Array.from({ length: size }, () => ({
            words: Array.from({ length: chunkWords }, () =>
              random.next() < 0.3 ? (ownWords[random.below(ownWords.length)] ?? '') : anyWord(subject),
            ),
            vector: direction(random, center, 0.7),
          })),
        };
      }
    },
    queries(count) {
      return Array.from({ length: count }, (_, index) => {
        const subject = random.below(subjects);
        const stems = contentStems(analyze(questions[(index * 7) % questions.length] ?? ''));
        return {
          terms: [...new Set(stems.map((stem) => wordOf(stem, subject)))],
          vector: direction(random, direction(random, centers[subject], 0.7), 0.7),
        };
      });
    },
  };
}

function mostFrequent(words: readonly string[], count: number): string[] {
  const frequencies = new Map<string, number>();
  for (const word of words) frequencies.set(word, (frequencies.get(word) ?? 0) + 1);
  return [...frequencies]
    .sort(([, a], [, b]) => b - a)
    .slice(0, count)
    .map(([word]) => word);
}

/** Returns a unit vector near `center`, with noise of the length `spread`. */
function direction(random: Random, center: Float32Array | undefined, spread: number): Float32Array {
  const scale = spread / Math.sqrt(dimensions);
  const vector = Float32Array.from(
    { length: dimensions },
    (_, axis) => (center?.[axis] ?? 0) + random.normal() * scale,
  );
  const length = Math.hypot(...vector);
  return vector.map((value) => value / length);
}
