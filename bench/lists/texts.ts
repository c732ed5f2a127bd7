import { createTextAnalyzer } from '../../src/adapters/text/text-analyzer.ts';
import { contentStems } from '../../src/domain/text/words.ts';
import { readDataset } from '../retrieval/datasets.ts';
import type { Random } from '../search/random.ts';

type Passage = { text: string; termCount: number; stems: ReadonlyMap<string, number> };

export type Texts = {
  words(count: number): string[];
  passage(): Passage;
  name(): string;
  byFrequency: readonly string[];
};

const passageWords = 40;
const generalWords = 500;
/** Copies of the vocabulary: a large collection has many more distinct content words than a small sample. */
const vocabularies = 20;
const letters = 'abcdefghijklmnopqrst';
const endings = ['.pdf', '.docx', '.md', '.txt', '.xlsx', '.pptx'];

/**
 * Generates passages with the word frequencies of chroma_chunking (three real texts, 1.3 MB). Each word but the most
 * general ones stands for twenty, because a small sample has few distinct words.
 */
export function generateTexts(random: Random): Texts {
  const analyze = createTextAnalyzer();
  const source = ['finance.md', 'pubmed.md', 'wikitexts.md'].map((name) => readDataset('chroma_chunking', name));
  const words = source.flatMap((text) => text.match(/\p{L}{2,30}/gu) ?? []).map((word) => word.toLowerCase());
  const frequencies = new Map<string, number>();
  for (const word of words) frequencies.set(word, (frequencies.get(word) ?? 0) + 1);
  const byFrequency = [...frequencies].sort(([, a], [, b]) => b - a).map(([word]) => word);
  const general = new Set(byFrequency.slice(0, generalWords));
  const stems = new Map<string, string | undefined>();

  const stemOf = (word: string) => {
    if (!stems.has(word)) stems.set(word, contentStems(analyze(word))[0]);
    return stems.get(word);
  };
  const anyWord = () => {
    const word = words[random.below(words.length)] ?? '';
    return general.has(word) ? word : `${word}${letters[random.below(vocabularies)]}`;
  };
  const capital = (word: string) => `${word.slice(0, 1).toUpperCase()}${word.slice(1)}`;

  const anyWords = (count: number) => Array.from({ length: count }, anyWord);

  return {
    words: anyWords,
    passage() {
      const chosen = anyWords(passageWords);
      const counted = new Map<string, number>();
      let termCount = 0;
      for (const word of chosen) {
        const stem = stemOf(word);
        if (stem === undefined) continue;
        counted.set(stem, (counted.get(stem) ?? 0) + 1);
        termCount += 1;
      }
      return { text: `${capital(chosen.join(' '))}.`, termCount, stems: counted };
    },
    name() {
      const chosen = Array.from({ length: 2 + random.below(4) }, anyWord).map(capital);
      return `${chosen.join(' ')} ${1990 + random.below(40)}${endings[random.below(endings.length)]}`;
    },
    byFrequency,
  };
}
