import type { AlignmentCalibration } from './alignment-calibration.ts';
import { type Anchor, containsPhrase, cosine, scoreText } from './alignment-score.ts';
import { clauseAfterSwitch, isCourtesy, tellingPart } from './alignment-text.ts';
import { type ReadRefusal, type RefusalReading, refusalOf } from './refusal.ts';
import { sentences } from './sentences.ts';
import { type AnalyzeText, contentStems, type Term } from './text-analysis.ts';

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

/** In words, and in those that carry meaning: a turn of less may only make sense with what was said before. */
const shortTurn = 8;
const fewContentWords = 4;
const shortReply = 20;
/** What is on topic only in its place counts for less. */
const contextShare = 0.8;
/** The cosine from which on a reply answers the question that it follows. */
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
 * score. Where the reply answers the question, the question counts also as 0.8 of the reply, and a short reply as 0.8 of
 * the question. A turn of courtesy, or with less than two content words and no anchor, is neutral; an announced change
 * of the topic never is, however few words it takes.
 */
export function scoreRound(texts: RoundTexts, anchors: readonly Anchor[], scoring: RoundScoring): ScoredRound {
  const { analyze, calibration, readRefusal } = scoring;
  const vectorOf = (text: string) => scoring.vectorOf(tellingPart(text));
  const parts = partsOf(texts, analyze);
  const score = (text: string) =>
    scoreText({ stems: stemsOf(text, analyze), vector: vectorOf(text) }, anchors, calibration);
  const refusal = readRefusal(texts.agent, vectorOf(parts.agent));
  const user = Math.max(score(parts.user), ...parts.continuations.map((text) => contextShare * score(text)));
  const agent = score(parts.agent);
  const isAnswered = isNear(vectorOf(parts.user), vectorOf(parts.agent));
  const isShortReply = analyze(parts.agent).length < shortReply;
  return {
    user: isAnswered && refusalOf(refusal) === null ? Math.max(user, contextShare * agent) : user,
    agent: isAnswered && isShortReply ? Math.max(agent, contextShare * user) : agent,
    neutral: !parts.isSwitch && isNeutral(parts.user, anchors, analyze),
    refusal,
    isDegraded: vectorOf(parts.user) === null || vectorOf(parts.agent) === null,
  };
}

function partsOf({ user, agent, previousUser, previousReply }: RoundTexts, analyze: AnalyzeText): Parts {
  const newTopic = clauseAfterSwitch(user);
  if (newTopic !== null) return { user: newTopic, agent, continuations: [], isSwitch: true };
  const continuations: string[] = [];
  if (isShortTurn(analyze(user))) {
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

/** "How often do I need to oil it then" has eight words, and three of them say something. */
function isShortTurn(terms: readonly Term[]): boolean {
  return terms.length < shortTurn || contentStems(terms).length < fewContentWords;
}

/**
 * Of a question and its reply. "Two years." says nothing of loans, and still answers how long one runs; "Can I take a
 * power bank?" says nothing of flights, and the reply knows that it is about one.
 */
function isNear(question: Float32Array | null, reply: Float32Array | null): boolean {
  return question !== null && reply !== null && cosine(question, reply) >= answersFrom;
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
