import { randomBytes } from 'node:crypto';
import { anchorWordProblems, normalizeAnchorWord } from '#src/domain/agents/drafts.ts';
import {
  type AnchorWordCandidate,
  type AnchorWordsPromptInput,
  anchorWordCandidateCount,
  anchorWordsAnswerSchema,
  anchorWordsRepairPrompt,
  buildAnchorWordsMessages,
  maxAnchorWordsAnswerTokens,
  parseAnchorWordsAnswer,
  personaExcerpt,
  selectAnchorWordCandidates,
  topicPhrasesOf,
  topicRelevanceOfPhrase,
} from '#src/domain/alignment/anchor-words.ts';
import { cosineSimilarity } from '#src/domain/alignment/score.ts';
import { weightedMeanVector } from '#src/domain/documents/embedding.ts';
import type { TextAnalyzer } from '#src/domain/text/words.ts';
import { appError } from '#src/errors.ts';
import type { ChatModel, Embedder, ModelMessage, TopicWordIndex } from '#src/ports/models.ts';

/** Maximum characters of a malformed model answer that are sent back to the model for correction. */
const maxRepairedCharacters = 4_000;

/** Asks a chat model for anchor words, twice if needed. At the timeout, returns the words received so far. */
export async function proposeAnchorWords(
  chatModel: Pick<ChatModel, 'stream'>,
  subject: AnchorWordsPromptInput,
  { model, timeoutMs, signal }: { model: string; timeoutMs: number; signal: AbortSignal },
): Promise<string[]> {
  const messages = buildAnchorWordsMessages(subject, randomBytes(8).toString('hex'));
  const signalOrTimeout = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);

  async function ask(conversation: ModelMessage[]): Promise<{ text: string; words: string[] | null }> {
    const request = { model, temperature: 0.2, maxTokens: maxAnchorWordsAnswerTokens, signal: signalOrTimeout };
    let text = '';
    try {
      await chatModel.stream(
        { ...request, messages: [...messages, ...conversation], responseSchema: anchorWordsAnswerSchema },
        (piece) => {
          text += piece;
        },
      );
    } catch (error) {
      signal.throwIfAborted();
      if (!signalOrTimeout.aborted || parseAnchorWordsAnswer(text) === null) throw error;
    }
    return { text, words: parseAnchorWordsAnswer(text) };
  }

  const { text, words } = await ask([]);
  if (words !== null) return words;
  const repaired = await ask([
    { role: 'assistant', content: text.slice(0, maxRepairedCharacters).toWellFormed() },
    { role: 'user', content: anchorWordsRepairPrompt },
  ]);
  if (repaired.words !== null) return repaired.words;
  throw appError('model_response_invalid', { detail: "The chat model's answer contains no list of anchor words." });
}

/** Maximum characters of the agent's introduction, as much as the alignment embedding model reads. */
const introductionCharacters = 1_000;
const maxProposals = 80;
/** Maximum phrases of the persona that count as topics, in addition to the agent's tags and chosen words. */
const maxPersonaTopics = 12;
const maxChosenTopics = 12;
/**
 * Number of English words that are considered as candidates: those nearest to the centroid of all topics. The best
 * `listedWords` become candidates.
 */
const nearWords = 1_500;
const listedWords = 120;

/** Minimum relevance of an anchor word candidate; less relevant ones are used only to fill a list of fewer than 24. */
const minRelevance = 0.4;

/**
 * Relevance bonuses of candidates: for words that the chat model proposed, and for rare words of the persona or the
 * passages.
 */
const bonus = { proposed: 0.5, rare: 0.2 } as const;

export type AnchorWordCandidateRanker = (
  subject: AnchorWordsPromptInput,
  sources: { proposals: readonly string[]; passages: readonly string[] },
  signal: AbortSignal,
) => Promise<string[]>;

export function createAnchorWordCandidateRanker(deps: {
  embedder: Embedder;
  topicWords: TopicWordIndex;
  analyze: TextAnalyzer;
}): AnchorWordCandidateRanker {
  const { embedder, topicWords, analyze } = deps;

  return async (subject, sources, signal) => {
    const persona = personaExcerpt(subject);
    const introduction = [subject.agentName, subject.tags.join(', '), persona].join('. ');
    const topicTexts = [
      introduction.slice(0, introductionCharacters),
      ...subject.tags,
      ...subject.words.slice(0, maxChosenTopics),
    ];
    const personaPhrases = topicPhrasesOf([persona], analyze);
    const passagePhrases = topicPhrasesOf(sources.passages, analyze);
    const proposed = [...new Set(sources.proposals.map(normalizeAnchorWord))]
      .filter(isAnchorWord)
      .slice(0, maxProposals);

    const groups = [
      topicTexts,
      personaPhrases.map(({ phrase }) => phrase),
      passagePhrases.map(({ phrase }) => phrase),
      proposed,
    ];
    const vectors = await embedder.embed(groups.flat(), { signal });
    const [topicVectors = [], personaVectors = [], passageVectors = [], proposedVectors = []] = split(vectors, groups);

    const nearestPhrases = personaVectors
      .map((vector) => ({ vector, relevance: topicRelevanceOfPhrase(vector, topicVectors) }))
      .sort((a, b) => b.relevance - a.relevance)
      .slice(0, maxPersonaTopics);
    const topics = [...topicVectors, ...nearestPhrases.map(({ vector }) => vector)];
    const rated = (words: readonly string[], of: readonly Float32Array[], bonusOf: (index: number) => number) =>
      words.flatMap((word, index): AnchorWordCandidate[] => {
        const vector = of[index];
        if (vector === undefined) return [];
        return [{ word, vector, relevance: topicRelevanceOfPhrase(vector, topics) + bonusOf(index) }];
      });

    const candidates = [
      ...rated(proposed, proposedVectors, () => bonus.proposed),
      ...rated(groups[1] ?? [], personaVectors, (index) => bonus.rare * (personaPhrases[index]?.rarity ?? 0)),
      ...rated(groups[2] ?? [], passageVectors, (index) => bonus.rare * (passagePhrases[index]?.rarity ?? 0)),
      ...(await nearestEnglishWords(topicWords, topics)),
    ].filter(({ word }) => isAnchorWord(word));
    const taken = [...subject.words, ...subject.excludeWords];
    const chosen = selectAnchorWordCandidates(
      candidates.filter(({ relevance }) => relevance >= minRelevance),
      taken,
      analyze,
    );
    if (chosen.length >= anchorWordCandidateCount.min) return chosen;
    const known = [...taken, ...chosen];
    return [
      ...chosen,
      ...selectAnchorWordCandidates(candidates, known, analyze, anchorWordCandidateCount.min - chosen.length),
    ];
  };
}

async function nearestEnglishWords(
  topicWords: TopicWordIndex,
  topics: readonly Float32Array[],
): Promise<AnchorWordCandidate[]> {
  const centroid = weightedMeanVector(topics.map((vector) => ({ vector, weight: 1 })));
  const near = await topicWords.nearest((vector) => cosineSimilarity(vector, centroid), nearWords);
  return near
    .map((entry) => ({ ...entry, relevance: topicRelevanceOfPhrase(entry.vector, topics) }))
    .sort((a, b) => b.relevance - a.relevance)
    .slice(0, listedWords);
}

export function isAnchorWord(word: string): boolean {
  const isPlain = /^[\p{L}\p{M}\p{N} '’.+#&/-]+$/u.test(word) && !word.includes('//');
  return isPlain && /\p{L}/u.test(word) && anchorWordProblems({ [word]: 1 }).length === 0;
}

function split(vectors: readonly Float32Array[], groups: readonly (readonly string[])[]): Float32Array[][] {
  let start = 0;
  return groups.map(({ length }) => {
    const part = vectors.slice(start, start + length);
    start += length;
    return part;
  });
}
