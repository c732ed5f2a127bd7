import { contentStems, splitSentences, type TextAnalyzer } from '../text/words.ts';
import { isOnTopicScore } from './chat-state.ts';
import { type AlignmentCalibration, type StemmedAnchorWord, scoreTextAlignment } from './score.ts';

/** Texts on which anchor words are tried: bounded, because publishing waits for their embeddings. */
const maxTexts = 20;
const maxGoldenPrompts = 10;
const maxTextLength = 300;
const minContentWords = 4;

/** Minimum number of texts; a share of fewer would say nothing. */
export const minTextsForAnchorFit = 5;

/**
 * A smaller share of texts on topic means weak anchor words. On CLINC150, chats of ten questions on topic drift falsely
 * in 64 % with anchor words that fit 0.4 to 0.5, in 41 % with 0.5 to 0.6, and in 8 % with 0.7 to 0.8
 * (`npm run bench:alignment -- anchors`). Ordinary words fit about 0.7, so that a sample of 20 texts seldom warns of them.
 */
export const weakAnchorFit = 0.5;

/** Number of an agent's anchor words that are named as helpful, and of those that are suggested instead of weak ones. */
const maxHelpfulWords = 5;
const maxSuggestedAnchorWords = 32;

type Passage = { documentId: string; content: string };

/**
 * Selects the texts on which an agent's anchor words are tried, at most 20: golden prompts, which are the questions that
 * its author expects, then the persona, then single sentences of passages, because questions are about as long.
 * @param passages best first; every document contributes one before any contributes a second
 */
export function textsForAnchorFit(
  agent: { agentPrompt: string; goldenPrompts: readonly string[]; passages: readonly Passage[] },
  analyze: TextAnalyzer,
): string[] {
  const own = [...agent.goldenPrompts.slice(0, maxGoldenPrompts), agent.agentPrompt]
    .map(shortened)
    .filter((text) => text !== '');
  const room = maxTexts - own.length;
  const passages = alternatingDocuments(agent.passages).slice(0, room);
  const sentencesEach = Math.ceil(room / Math.max(1, passages.length));
  const sentences = passages.flatMap(({ content }) => evenlySpaced(sentencesOf(content, analyze), sentencesEach));
  return [...new Set([...own, ...sentences.slice(0, room)])];
}

function alternatingDocuments(passages: readonly Passage[]): Passage[] {
  const seen = new Map<string, number>();
  const ranked = passages.map((passage) => {
    const turn = seen.get(passage.documentId) ?? 0;
    seen.set(passage.documentId, turn + 1);
    return { passage, turn };
  });
  return ranked.toSorted((a, b) => a.turn - b.turn).map(({ passage }) => passage);
}

function sentencesOf(content: string, analyze: TextAnalyzer): string[] {
  return content.split('\n').flatMap((line) =>
    splitSentences(line)
      .map(({ start, end }) => line.slice(start, end).trim())
      .filter((text) => text.length <= maxTextLength && contentStems(analyze(text)).length >= minContentWords),
  );
}

function evenlySpaced<T>(items: readonly T[], count: number): T[] {
  if (items.length <= count) return [...items];
  return Array.from({ length: count }, (_, index) => items[Math.floor(((index + 0.5) * items.length) / count)]).filter(
    (item) => item !== undefined,
  );
}

function shortened(text: string): string {
  return text.slice(0, maxTextLength).toWellFormed().trim();
}

type TriedText = { stems: readonly string[]; vector: Float32Array | null };
export type NamedAnchorWord = StemmedAnchorWord & { word: string };

/** `share` is the part of the texts whose alignment score is on topic. */
export type AnchorFit = { share: number; helpfulWords: string[] };

/** Words that help most are those that alone come nearest to most of the texts that are on topic. */
export function measureAnchorFit(
  texts: readonly TriedText[],
  anchors: readonly NamedAnchorWord[],
  calibration: AlignmentCalibration,
): AnchorFit {
  const onTopic = texts.filter((text) => isOnTopicScore(scoreTextAlignment(text, anchors, calibration)));
  const helped = new Map<string, number>();
  for (const text of onTopic) {
    const scores = anchors.map((anchor) => scoreTextAlignment(text, [anchor], calibration));
    const nearest = anchors[scores.indexOf(Math.max(...scores))];
    if (nearest !== undefined) helped.set(nearest.word, (helped.get(nearest.word) ?? 0) + 1);
  }
  const helpfulWords = [...helped].sort(([, a], [, b]) => b - a).map(([word]) => word);
  return { share: onTopic.length / Math.max(1, texts.length), helpfulWords: helpfulWords.slice(0, maxHelpfulWords) };
}

/**
 * Selects words that would bring more of the texts on topic: greedily the one with the largest gain over all texts,
 * compared with half of each text's best score so far. With the whole score, words that cover these texts alone would be
 * enough, and questions about the rest of the documents use other words. Measured on texts and questions of
 * chroma_chunking: questions on topic 89, 65 and 58 %, with the whole score and the most frequent words after it 82, 58
 * and 45 %.
 */
export function selectBetterAnchorWords(
  texts: readonly TriedText[],
  anchors: readonly NamedAnchorWord[],
  candidates: readonly NamedAnchorWord[],
  calibration: AlignmentCalibration,
): string[] {
  const rated = candidates.map(({ word, ...anchor }) => ({
    word,
    scores: texts.map((text) => scoreTextAlignment(text, [anchor], calibration)),
  }));
  const best = texts.map((text) => scoreTextAlignment(text, anchors, calibration));
  const gainOf = (scores: readonly number[]) =>
    scores.reduce((sum, score, index) => sum + Math.max(0, score - (best[index] ?? 0) / 2), 0);
  const chosen: string[] = [];
  while (chosen.length < maxSuggestedAnchorWords) {
    const gains = rated.map(({ scores }) => gainOf(scores));
    const [next] = rated.splice(gains.indexOf(Math.max(...gains)), 1);
    if (next === undefined) break;
    chosen.push(next.word);
    for (const [index, score] of next.scores.entries()) best[index] = Math.max(best[index] ?? 0, score);
  }
  return chosen;
}
