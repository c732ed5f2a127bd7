import { contentStems, type StemmedTerm, splitSentences, type TextAnalyzer } from '../text/words.ts';
import { nullUnlessLikelyRefusal, type RefusalDetection, type RefusalDetector } from './refusal.ts';
import {
  type AlignmentCalibration,
  containsStemPhrase,
  cosineSimilarity,
  type StemmedAnchorWord,
  scoreTextAlignment,
} from './score.ts';

/**
 * Texts of a round, and of the previous round that it may continue. The previous reply is null if it was a refusal.
 */
export type RoundTexts = { user: string; agent: string; previousUser: string | null; previousReply: string | null };

export type ScoredRound = {
  user: number;
  agent: number;
  neutral: boolean;
  refusal: RefusalDetection;
  isDegraded: boolean;
};

type RoundScoring = {
  /** Returns the embedding of one of the `roundTextsToEmbed`; null while the embedding model is unavailable. */
  vectorOf: (text: string) => Float32Array | null;
  analyze: TextAnalyzer;
  calibration: AlignmentCalibration;
  readRefusal: RefusalDetector;
};

/**
 * A message with fewer words than this, or fewer content words than `fewContentWords`, may refer to the previous round.
 */
const shortMessage = 8;
const fewContentWords = 4;
const shortReply = 20;
const contextShare = 0.8;
const answersFrom = 0.3;
const minContentWords = 2;
const contextCharacters = 400;

type Parts = { user: string; agent: string; continuations: string[]; isSwitch: boolean };

export function roundTextsToEmbed(texts: RoundTexts, analyze: TextAnalyzer): string[] {
  const { user, agent, continuations } = partsOf(texts, analyze);
  return [...new Set([user, agent, ...continuations].map(embeddedPart))];
}

/**
 * Scores a round against the agent's anchor words.
 * - If the message announces a change of topic, only the new topic is scored.
 * - A short message may continue the previous round. It gets the best of its own score and 0.8 times the score of its
 *   text joined to the user's previous message or to the last sentence of the previous reply.
 * - If the reply answers the question, the question gets at least 0.8 times the score of the reply (unless the reply is
 *   a refusal), and a short reply at least 0.8 times the score of the question.
 * - A message without anchor words is neutral if it is a courtesy or has fewer than two content words, unless it
 *   announces a change of topic.
 */
export function scoreRound(
  texts: RoundTexts,
  anchors: readonly StemmedAnchorWord[],
  scoring: RoundScoring,
): ScoredRound {
  const { analyze, calibration, readRefusal } = scoring;
  const vectorOf = (text: string) => scoring.vectorOf(embeddedPart(text));
  const parts = partsOf(texts, analyze);
  const score = (text: string) =>
    scoreTextAlignment({ stems: stemsOf(text, analyze), vector: vectorOf(text) }, anchors, calibration);
  const refusal = readRefusal(texts.agent, vectorOf(parts.agent));
  const user = Math.max(score(parts.user), ...parts.continuations.map((text) => contextShare * score(text)));
  const agent = score(parts.agent);
  const isAnswered = isNear(vectorOf(parts.user), vectorOf(parts.agent));
  const isShortReply = analyze(parts.agent).length < shortReply;
  return {
    user: isAnswered && nullUnlessLikelyRefusal(refusal) === null ? Math.max(user, contextShare * agent) : user,
    agent: isAnswered && isShortReply ? Math.max(agent, contextShare * user) : agent,
    neutral: !parts.isSwitch && isNeutral(parts.user, anchors, analyze),
    refusal,
    isDegraded: vectorOf(parts.user) === null || vectorOf(parts.agent) === null,
  };
}

function partsOf({ user, agent, previousUser, previousReply }: RoundTexts, analyze: TextAnalyzer): Parts {
  const newTopic = newTopicAfterTopicSwitch(user);
  if (newTopic !== null) return { user: newTopic, agent, continuations: [], isSwitch: true };
  const continuations: string[] = [];
  if (isShortMessage(analyze(user))) {
    if (previousUser !== null) continuations.push(`${newTopicAfterTopicSwitch(previousUser) ?? previousUser}\n${user}`);
    if (previousReply !== null) continuations.push(`${lastSentence(previousReply)}\n${user}`);
  }
  return { user, agent, continuations, isSwitch: false };
}

function lastSentence(text: string): string {
  const end = text.trimEnd().slice(-contextCharacters);
  return end.slice(splitSentences(end).at(-1)?.start);
}

function isShortMessage(terms: readonly StemmedTerm[]): boolean {
  return terms.length < shortMessage || contentStems(terms).length < fewContentWords;
}

/** Decides by similarity whether a reply answers a question: "Two years." answers how long a loan runs. */
function isNear(question: Float32Array | null, reply: Float32Array | null): boolean {
  return question !== null && reply !== null && cosineSimilarity(question, reply) >= answersFrom;
}

function isNeutral(text: string, anchors: readonly StemmedAnchorWord[], analyze: TextAnalyzer): boolean {
  const terms = analyze(text);
  const stems = terms.map((term) => term.stem);
  if (anchors.some((anchor) => containsStemPhrase(stems, anchor.stems))) return false;
  return isCourtesyMessage(text) || contentStems(terms).length < minContentWords;
}

function stemsOf(text: string, analyze: TextAnalyzer): string[] {
  return analyze(text).map((term) => term.stem);
}

const neutralWords: ReadonlySet<string> = new Set(
  `hi hello hey hiya yo greetings good morning afternoon evening night day bye goodbye cheers welcome
  thanks thank thx ty you very much so a lot many appreciate it that's that is
  yes yeah yep yup no nope nah ok okay k sure fine alright all right great perfect cool nice awesome excellent wonderful
  please sorry got i see understood makes sense of course exactly correct indeed absolutely definitely maybe hmm
  oh ah wow haha lol how are what's up well go on continue more`.split(/\s+/),
);

const words = /[\p{L}\p{M}\p{N}]+(?:['’][\p{L}]+)*/gu;

export function isCourtesyMessage(text: string): boolean {
  return Array.from(text.toLowerCase().replaceAll('’', "'").matchAll(words)).every(([word]) => neutralWords.has(word));
}

/**
 * Maximum length of a text to embed in UTF-16 code units: about 1,500 tokens, and at most 6,000 tokens in any script.
 */
const maxEmbeddedLength = 6_000;

function embeddedPart(text: string): string {
  if (text.length <= maxEmbeddedLength) return text;
  const third = maxEmbeddedLength / 3;
  const middle = (text.length - third) / 2;
  const parts = [text.slice(0, third), text.slice(middle, middle + third), text.slice(-third)];
  return parts.join('\n').toWellFormed();
}

// The repetitions in these regular expressions are bounded, because texts such as 30,000 times "please" or as many
// spaces would otherwise take quadratic time.
const dismissal = String.raw`(?:^|[.!?;,:\n—–-][^\S\n]{0,9}|\b(?:ok|okay|well|so|please|alright|actually|now|just)\s+)(?:(?:please|let['’]s|just)\s+){0,3}(?:forget|never\s?mind|enough|no more|stop talking|drop|leave|skip|put)\s{1,9}(?:(?:about|of|with)\s{1,9})?[^.!?,;:\n—–]{0,200}(?:[.!?,;:\n—–]{1,9}\s*(?:(?:and|but|so|now|then|instead,?)\s+){0,3}|\s{1,9}and\s{1,9}(?=let|can|could|tell|talk|i\b|what|how))`;
const turn = String.raw`\b(?:let['’]?s|let us|can we|could we|shall we|we should|i(?:['’]d| would) (?:like|rather|prefer)(?: to)?|i want to)\s+(?:(?:now|instead|please|just|rather)\s+){0,3}(?:talk|speak|chat|discuss|switch|move on|change|turn|go)\b(?:\s+(?:back|instead|now|the|topics?|subjects?)){0,4}\s*(?:about|over to|to|onto|on)?\s+`;
const announcement = String.raw`\b(?:changing|to change|switching|on) (?:the |another |a different |an unrelated |a totally different )?(?:subjects?|topics?|note)\b[\s,:.—–-]{0,9}(?:to\s+)?`;
const switchCues = new RegExp(`${dismissal}|${turn}|${announcement}`, 'giu');

/** Returns "football" for "Forget the loan, let's talk about football"; null if no change of topic is announced. */
export function newTopicAfterTopicSwitch(text: string): string | null {
  const cue = [...text.matchAll(switchCues)].at(-1);
  if (!cue) return null;
  const clause = text.slice(cue.index + cue[0].length).trim();
  return /[\p{L}\p{N}]/u.test(clause) ? clause : null;
}
