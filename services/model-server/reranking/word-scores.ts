import { contentStems } from '../extractive/content-words.ts';

/** BM25's constants k1 and b with their usual values. */
const saturation = 1.2;
const lengthShare = 0.75;

/**
 * BM25 (Robertson and Zaragoza 2009) with the passages of the call as the whole collection: a word that all of them
 * have does not distinguish them.
 */
export function wordScores(question: string, passages: readonly string[]): number[] {
  const stems = passages.map(contentStems);
  const counts = stems.map(countEach);
  const averageLength = Math.max(1, stems.flat().length / passages.length);
  const weights = [...new Set(contentStems(question))].map((word) => {
    const holders = counts.filter((count) => count.has(word)).length;
    return { word, weight: Math.log(1 + (passages.length - holders + 0.5) / (holders + 0.5)) };
  });
  return counts.map((count, place) => {
    const norm = saturation * (1 - lengthShare + (lengthShare * (stems[place]?.length ?? 0)) / averageLength);
    return weights.reduce((score, { word, weight }) => {
      const times = count.get(word) ?? 0;
      return score + (weight * times * (saturation + 1)) / (times + norm);
    }, 0);
  });
}

function countEach(words: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
  return counts;
}
