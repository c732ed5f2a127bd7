import { cosine } from './alignment-score.ts';
import { type AnalyzeText, contentStems } from './text-analysis.ts';

/** A word or phrase that may become an anchor. `relevance` is its similarity to the agent's topic. */
export type AnchorCandidate = { word: string; relevance: number; vector: Float32Array };

/** Scores got no better with more; under 24 they get worse. */
export const anchorCandidateCount = { min: 24, max: 40 } as const;

const maxPhraseWords = 3;
/** How much relevance counts against being unlike what is already chosen. */
const relevanceShare = 0.7;

/**
 * The candidates to propose, best first: phrases of up to three words with some content, each stem form once and none of
 * `taken`, ordered by maximal marginal relevance (Carbonell and Goldstein 1998): at each step the one with the largest
 * 0.7 · relevance − 0.3 · similarity to the nearest one chosen.
 */
export function selectAnchorCandidates(
  candidates: readonly AnchorCandidate[],
  taken: readonly string[],
  analyze: AnalyzeText,
  limit: number = anchorCandidateCount.max,
): string[] {
  const remaining = distinctCandidates(candidates, taken, analyze).map((candidate) => ({ candidate, nearest: 0 }));
  const selected: string[] = [];
  while (selected.length < limit && remaining.length > 0) {
    const gains = remaining.map(
      ({ candidate, nearest }) => relevanceShare * candidate.relevance - (1 - relevanceShare) * nearest,
    );
    const best = gains.indexOf(Math.max(...gains));
    const [chosen] = remaining.splice(best, 1);
    if (!chosen) break;
    selected.push(chosen.candidate.word);
    for (const other of remaining) {
      other.nearest = Math.max(other.nearest, cosine(other.candidate.vector, chosen.candidate.vector));
    }
  }
  return selected;
}

/** Most relevant form of each stem first, so that it is the one that stays. */
function distinctCandidates(
  candidates: readonly AnchorCandidate[],
  taken: readonly string[],
  analyze: AnalyzeText,
): AnchorCandidate[] {
  const stemForm = (word: string) =>
    analyze(word)
      .map((term) => term.stem)
      .join(' ');
  const seen = new Set(taken.map(stemForm));
  return [...candidates]
    .sort((a, b) => b.relevance - a.relevance || (a.word < b.word ? -1 : 1))
    .filter(({ word }) => {
      const form = stemForm(word);
      const isNew = !seen.has(form);
      seen.add(form);
      const terms = analyze(word);
      return isNew && terms.length <= maxPhraseWords && contentStems(terms).length > 0;
    });
}
