import type { AlignmentCalibration } from './alignment-calibration.ts';
import { type Anchor, containsPhrase, scoreText } from './alignment-score.ts';
import { clauseAfterSwitch, isCourtesy } from './alignment-text.ts';
import { detectRefusal, type Refusal } from './refusal.ts';
import { type AnalyzeText, contentStems } from './text-analysis.ts';

/** The texts of a round; `previousUser` is the user's turn before, null in the first round. */
export type RoundTexts = { user: string; agent: string; previousUser: string | null };

/** `isDegraded`: scored by words alone. */
export type ScoredRound = {
  user: number;
  agent: number;
  neutral: boolean;
  refusal: Refusal | null;
  isDegraded: boolean;
};

/** A turn shorter than this many words may only make sense with the one before. */
const shortTurnWords = 8;
const followUpShare = 0.8;
const minContentWords = 2;

type Parts = { user: string; agent: string; followUp: string | null };

/** The texts whose embeddings `scoreRound` asks for. */
export function textsToEmbed(texts: RoundTexts, analyze: AnalyzeText): string[] {
  const { user, agent, followUp } = partsOf(texts, analyze);
  return [...new Set([user, agent, ...(followUp === null ? [] : [followUp])])];
}

/**
 * Scores a round against the agent's anchors. Of a turn that changes the topic only the new one counts; a short turn
 * counts also as a continuation of the one before (0.8 of their common score); a turn of courtesy, or with less than two
 * content words and no anchor, is neutral.
 * @param deps.vectorOf the embedding of a text of `textsToEmbed`, null while the embedder is down
 */
export function scoreRound(
  texts: RoundTexts,
  anchors: readonly Anchor[],
  deps: { vectorOf: (text: string) => Float32Array | null; analyze: AnalyzeText; calibration: AlignmentCalibration },
): ScoredRound {
  const parts = partsOf(texts, deps.analyze);
  const score = (text: string) =>
    scoreText({ stems: stemsOf(text, deps.analyze), vector: deps.vectorOf(text) }, anchors, deps.calibration);
  const alone = score(parts.user);
  return {
    user: parts.followUp === null ? alone : Math.max(alone, followUpShare * score(parts.followUp)),
    agent: score(parts.agent),
    neutral: isNeutral(parts.user, anchors, deps.analyze),
    refusal: detectRefusal(texts.agent),
    isDegraded: deps.vectorOf(parts.user) === null || deps.vectorOf(parts.agent) === null,
  };
}

function partsOf({ user, agent, previousUser }: RoundTexts, analyze: AnalyzeText): Parts {
  const newTopic = clauseAfterSwitch(user);
  if (newTopic !== null) return { user: newTopic, agent, followUp: null };
  const isShort = analyze(user).length < shortTurnWords;
  return { user, agent, followUp: isShort && previousUser !== null ? `${previousUser}\n${user}` : null };
}

function isNeutral(text: string, anchors: readonly Anchor[], analyze: AnalyzeText): boolean {
  const terms = analyze(text);
  const stems = terms.map((term) => term.stem);
  if (anchors.some((anchor) => containsPhrase(stems, anchor.stems))) return false;
  return isCourtesy(text) || contentStems(terms).length < minContentWords;
}

function stemsOf(text: string, analyze: AnalyzeText): string[] {
  return analyze(text).map((term) => term.stem);
}
