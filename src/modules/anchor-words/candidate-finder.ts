import { anchorSpelling, anchorWordProblems } from '#src/domain/agents/drafts.ts';
import {
  type AnchorCandidate,
  type AnchorSubject,
  anchorCandidateCount,
  personaExcerpt,
  phrasesOf,
  selectAnchorCandidates,
  topicRelevance,
} from '#src/domain/alignment/anchor-words.ts';
import { cosine } from '#src/domain/alignment/score.ts';
import { poolVectors } from '#src/domain/documents/embedding.ts';
import type { AnalyzeText } from '#src/domain/text/words.ts';
import type { Embedder, TopicWords } from '#src/ports/models.ts';

/** The model that scores reads no more of a text. */
const introductionCharacters = 1_000;
const maxProposals = 80;
/** Words of the persona that say what the agent is about, beside its tags and what its author has chosen. */
const ownTopics = 12;
const chosenTopics = 12;
/** Of the list, those near to all topics together, of which the nearest to some of them are looked for. */
const nearWords = 1_500;
const listedWords = 120;

/** What is further away comes only where there is not enough that is nearer. */
const minRelevance = 0.4;

/** By how much what somebody knows of the subject is preferred to what is only near to it. */
const advance = { proposed: 0.5, rare: 0.2 } as const;

export type CandidateFinder = (
  subject: AnchorSubject,
  found: { proposals: readonly string[]; passages: readonly string[] },
  signal: AbortSignal,
) => Promise<string[]>;

/**
 * Chooses candidates for anchor words, best first: of the proposals of a chat model, the persona's own phrases, those of
 * passages that its readers may read, and a list of English words, by their nearness to the agent's topics in the space
 * in which conversations are scored. Throws as `Embedder` does.
 */
export function createCandidateFinder(deps: {
  embedder: Embedder;
  topicWords: TopicWords;
  analyze: AnalyzeText;
}): CandidateFinder {
  const { embedder, topicWords, analyze } = deps;

  async function nearestWords(topics: readonly Float32Array[]): Promise<AnchorCandidate[]> {
    const centre = poolVectors(topics.map((vector) => ({ vector, weight: 1 })));
    const near = await topicWords.nearest((vector) => cosine(vector, centre), nearWords);
    return near
      .map((entry) => ({ ...entry, relevance: topicRelevance(entry.vector, topics) }))
      .sort((a, b) => b.relevance - a.relevance)
      .slice(0, listedWords);
  }

  return async (subject, { proposals, passages }, signal) => {
    const persona = personaExcerpt(subject);
    const introduction = [subject.agentName, subject.tags.join(', '), persona].join('. ');
    const about = [
      introduction.slice(0, introductionCharacters),
      ...subject.tags,
      ...subject.words.slice(0, chosenTopics),
    ];
    const own = phrasesOf([persona], analyze);
    const told = phrasesOf(passages, analyze);
    const proposed = [...new Set(proposals.map(anchorSpelling))].filter(isAnchorWord).slice(0, maxProposals);

    const groups = [about, own.map(({ phrase }) => phrase), told.map(({ phrase }) => phrase), proposed];
    const vectors = await embedder.embed(groups.flat(), { signal });
    const [aboutVectors = [], ownVectors = [], toldVectors = [], proposedVectors = []] = split(vectors, groups);

    const ownNearest = ownVectors
      .map((vector) => ({ vector, relevance: topicRelevance(vector, aboutVectors) }))
      .sort((a, b) => b.relevance - a.relevance)
      .slice(0, ownTopics);
    const topics = [...aboutVectors, ...ownNearest.map(({ vector }) => vector)];
    const rated = (words: readonly string[], of: readonly Float32Array[], bonus: (index: number) => number) =>
      words.flatMap((word, index): AnchorCandidate[] => {
        const vector = of[index];
        return vector === undefined ? [] : [{ word, vector, relevance: topicRelevance(vector, topics) + bonus(index) }];
      });

    const candidates = [
      ...rated(proposed, proposedVectors, () => advance.proposed),
      ...rated(groups[1] ?? [], ownVectors, (index) => advance.rare * (own[index]?.rarity ?? 0)),
      ...rated(groups[2] ?? [], toldVectors, (index) => advance.rare * (told[index]?.rarity ?? 0)),
      ...(await nearestWords(topics)),
    ].filter(({ word }) => isAnchorWord(word));
    const taken = [...subject.words, ...subject.excludeWords];
    const chosen = selectAnchorCandidates(
      candidates.filter(({ relevance }) => relevance >= minRelevance),
      taken,
      analyze,
    );
    if (chosen.length >= anchorCandidateCount.min) return chosen;
    const known = [...taken, ...chosen];
    return [...chosen, ...selectAnchorCandidates(candidates, known, analyze, anchorCandidateCount.min - chosen.length)];
  };
}

/** Whether a draft may have it as an anchor: what a model writes may be anything. */
function isAnchorWord(word: string): boolean {
  const isPlain = /^[\p{L}\p{M}\p{N} '’.+#&/-]+$/u.test(word) && !word.includes('//');
  return isPlain && /\p{L}/u.test(word) && anchorWordProblems({ [word]: 1 }).length === 0;
}

/** Vectors of texts that were embedded together, as their groups have them. */
function split(vectors: readonly Float32Array[], groups: readonly (readonly string[])[]): Float32Array[][] {
  let start = 0;
  return groups.map(({ length }) => {
    const part = vectors.slice(start, start + length);
    start += length;
    return part;
  });
}
