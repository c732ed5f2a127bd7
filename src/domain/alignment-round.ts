import type { AlignmentCalibration } from './alignment-calibration.ts';
import { type Anchor, containsPhrase, cosine, scoreText } from './alignment-score.ts';
import { clauseAfterSwitch, isCourtesy, tellingPart } from './alignment-text.ts';
import type { ReadRefusal, RefusalReading } from './refusal.ts';
import { sentences } from './sentences.ts';
import { type AnalyzeText, contentStems } from './text-analysis.ts';

/**
 * The texts of a round, and of the one before what this one may go on about; null where there is none. A reply that
 * declined is none: nobody goes on about what was not said.
 */
export type RoundTexts = { user: string; agent: string; previousUser: string | null; previousReply: string | null };

/** `isDegraded`: scored by words alone. */
export type ScoredRound = {
  user: number;
  agent: number;
  neutral: boolean;
  refusal: RefusalReading;
  isDegraded: boolean;
};

export type RoundScoring = {
  /** The embedding of a text of `textsToEmbed`, null while the embedder is down. */
  vectorOf: (text: string) => Float32Array | null;
  analyze: AnalyzeText;
  calibration: AlignmentCalibration;
  readRefusal: ReadRefusal;
};

/** In words: a turn that is shorter may only make sense with what was said before. */
const shortTurn = 8;
const shortReply = 20;
/** What is on topic only in its place counts for less. */
const contextShare = 0.8;
/** The cosine from which on a short reply answers the question that it follows. */
const answersFrom = 0.3;
const minContentWords = 2;
/** A sentence that is longer says what it is about. */
const contextCharacters = 400;

type Parts = { user: string; agent: string; continuations: string[]; isSwitch: boolean };

/** The texts whose embeddings `scoreRound` asks for. */
export function textsToEmbed(texts: RoundTexts, analyze: AnalyzeText): string[] {
  const { user, agent, continuations } = partsOf(texts, analyze);
  return [...new Set([user, agent, ...continuations].map(tellingPart))];
}

/**
 * Scores a round against the agent's anchors. Of a turn that changes the topic only the new one counts. A short turn
 * counts also as a continuation of the user's before it, or of the last sentence of the agent's: 0.8 of their common
 * score; a short reply that answers its question as 0.8 of that. A turn of courtesy, or with less than two content words
 * and no anchor, is neutral; an announced change of the topic never is, however few words it takes.
 */
export function scoreRound(texts: RoundTexts, anchors: readonly Anchor[], scoring: RoundScoring): ScoredRound {
  const { analyze, calibration, readRefusal } = scoring;
  const vectorOf = (text: string) => scoring.vectorOf(tellingPart(text));
  const parts = partsOf(texts, analyze);
  const score = (text: string) =>
    scoreText({ stems: stemsOf(text, analyze), vector: vectorOf(text) }, anchors, calibration);
  const user = Math.max(score(parts.user), ...parts.continuations.map((text) => contextShare * score(text)));
  const isAnswer = isShortAnswer(vectorOf(parts.user), { text: parts.agent, vector: vectorOf(parts.agent) }, analyze);
  return {
    user,
    agent: Math.max(score(parts.agent), isAnswer ? contextShare * user : 0),
    neutral: !parts.isSwitch && isNeutral(parts.user, anchors, analyze),
    refusal: readRefusal(texts.agent, vectorOf(parts.agent)),
    isDegraded: vectorOf(parts.user) === null || vectorOf(parts.agent) === null,
  };
}

function partsOf({ user, agent, previousUser, previousReply }: RoundTexts, analyze: AnalyzeText): Parts {
  const newTopic = clauseAfterSwitch(user);
  if (newTopic !== null) return { user: newTopic, agent, continuations: [], isSwitch: true };
  const continuations: string[] = [];
  if (analyze(user).length < shortTurn) {
    // What the turn before left behind is not what this one goes on about.
    if (previousUser !== null) continuations.push(`${clauseAfterSwitch(previousUser) ?? previousUser}\n${user}`);
    if (previousReply !== null) continuations.push(`${lastSentence(previousReply)}\n${user}`);
  }
  return { user, agent, continuations, isSwitch: false };
}

function lastSentence(text: string): string {
  const end = text.trimEnd().slice(-contextCharacters);
  return end.slice(sentences(end).at(-1)?.start);
}

/** "Two years." says nothing of loans, and still answers how long one runs. */
function isShortAnswer(
  question: Float32Array | null,
  reply: { text: string; vector: Float32Array | null },
  analyze: AnalyzeText,
): boolean {
  if (question === null || reply.vector === null || analyze(reply.text).length >= shortReply) return false;
  return cosine(question, reply.vector) >= answersFrom;
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
