import { contentWords, namingWords } from './content-words.ts';
import type { ContextBlock } from './context-blocks.ts';
import { type Statement, splitIntoStatements } from './statements.ts';

export type Quotation = { text: string; block: number };
export type EmbedTexts = (texts: string[]) => Promise<Float32Array[]>;

type Candidate = Statement & { block: number; words: Set<string>; vector: Float32Array };
type Ranked = Candidate & { relevance: number; coverage: number; score: number };

/** Weight of the question's words beside the cosine of embeddings: names and codes have no meaning to embed. */
const WORDS_SHARE = 0.5;
/**
 * Relevance threshold: of 23 questions that six documents do not answer the highest scored 0.39; most answered ones
 * score above 0.42.
 */
const MIN_RELEVANCE = 0.42;
/** Higher relevance threshold for a statement that shares no word, or only the named subject, with the question. */
const MIN_RELEVANCE_WITHOUT_WORDS = 0.5;
const MIN_RELEVANCE_OF_NAMES_ALONE = 0.66;
/** Matches a labelled field ("Phone: 123"), whose label replaces words of the question that it does not share. */
const FIELD = /\p{L}: \S/u;
/**
 * Bonus for a statement of the kind that the question asks for (such as a date); it only orders relevant statements.
 */
const EXPECTATION_BONUS = 0.08;
const TOPIC_PENALTY = 0.1;
const EXPECTATIONS = [
  {
    asked:
      /\bhow (?:many|much|long|old|often|big|far)\b|\bwhen\b|\b(?:number|date|year|time|price|cost|total|amount|rate|phone|id)\b/i,
    given: /\d/,
  },
  { asked: /\bwho(?:se|m)?\b/i, given: /\p{Lu}\p{Ll}+ \p{Lu}/u },
];
/** Further quotations need this share of the best statement's score, in total and in word coverage. */
const MIN_SHARE_OF_BEST_SCORE = 0.9;
const MIN_SHARE_OF_BEST_COVERAGE = 0.75;
const MAX_QUOTATIONS = 3;
/** Words of requests such as "Summarize this document": a question without any other word asks for an overview. */
const OVERVIEW_WORDS = contentWords(
  'summarize summary overview describe explain main key point topic content document file text page',
);

/**
 * Finds the statements that answer the question best, best first; empty if none is relevant. Numbers, codes and names
 * of the question must be in the passage or in the name of its document.
 */
export async function findQuotations(
  question: string,
  blocks: ContextBlock[],
  embed: EmbedTexts,
): Promise<Quotation[]> {
  const naming = namingWords(question);
  const named = blocks.filter(({ document, text }) => {
    const words = contentWords(`${document} ${text}`);
    return [...naming].every((word) => words.has(word));
  });
  const statements = named.flatMap(({ number, document, text }) => {
    const nameOfAll = [...contentWords(document)].filter((word) => naming.has(word));
    return splitIntoStatements(text).map((statement) => ({ ...statement, block: number, nameOfAll }));
  });
  const [questionVector, ...vectors] = await embed([question, ...statements.map(({ context }) => context)]);
  if (!questionVector) return [];
  const candidates = statements.map((statement, index): Candidate => {
    const vector = vectors[index] ?? new Float32Array(questionVector.length);
    const words = new Set([...contentWords(statement.context), ...statement.nameOfAll]);
    return { ...statement, words, vector };
  });

  const questionWords = contentWords(question);
  if ([...questionWords].every((word) => OVERVIEW_WORDS.has(word))) return quoteOverview(candidates);
  const subjectWords = [...questionWords].filter((word) => !naming.has(word));
  const isRelevant = ({ relevance, words, text }: Ranked): boolean => {
    const isAboutSubject = subjectWords.length === 0 || subjectWords.some((word) => words.has(word));
    if (isAboutSubject) return relevance >= MIN_RELEVANCE;
    return (
      relevance >= (naming.size === 0 || FIELD.test(text) ? MIN_RELEVANCE_WITHOUT_WORDS : MIN_RELEVANCE_OF_NAMES_ALONE)
    );
  };
  return quoteBest(rank(question, questionWords, questionVector, candidates).filter(isRelevant));
}

function rank(question: string, words: Set<string>, vector: Float32Array, candidates: Candidate[]): Ranked[] {
  const expectation = EXPECTATIONS.find(({ asked }) => asked.test(question));
  const coverageOf = wordCoverage(words, candidates);
  const ranked = candidates.map((candidate): Ranked => {
    const meaning = cosine(vector, candidate.vector);
    const coverage = coverageOf(candidate);
    const relevance = meaning + WORDS_SHARE * Math.max(0, coverage - meaning);
    const bonus = expectation?.given.test(candidate.text) ? EXPECTATION_BONUS : 0;
    return { ...candidate, coverage, relevance, score: relevance + bonus - (candidate.isTopic ? TOPIC_PENALTY : 0) };
  });
  return ranked.toSorted((a, b) => b.score - a.score);
}

/** Returns the share of the question's words that a candidate has, weighting rare words more (as idf does). */
function wordCoverage(words: Set<string>, candidates: Candidate[]): (candidate: Candidate) => number {
  const weights = [...words].map((word): [string, number] => {
    const holders = candidates.filter((candidate) => candidate.words.has(word)).length;
    return [word, Math.log(1 + candidates.length / (1 + holders))];
  });
  const total = weights.reduce((sum, [, weight]) => sum + weight, 0);
  return (candidate) => {
    const found = weights.reduce((sum, [word, weight]) => sum + (candidate.words.has(word) ? weight : 0), 0);
    return total > 0 ? found / total : 0;
  };
}

function quoteBest(ranked: Ranked[]): Quotation[] {
  const [best, ...others] = ranked;
  if (!best) return [];
  const further = others.filter(
    ({ score, coverage, isTopic }) =>
      !isTopic &&
      score >= best.score * MIN_SHARE_OF_BEST_SCORE &&
      coverage >= best.coverage * MIN_SHARE_OF_BEST_COVERAGE,
  );
  return quote([best, ...further]);
}

function quoteOverview(candidates: Candidate[]): Quotation[] {
  const mean = candidates.reduce<Float32Array>(
    (sum, { vector }) => vector.map((value, index) => value + (sum[index] ?? 0)),
    new Float32Array(),
  );
  const sentences = candidates.filter(({ text }) => /[.!]$/.test(text));
  const central = (sentences.length > 0 ? sentences : candidates).toSorted(
    (a, b) => cosine(b.vector, mean) - cosine(a.vector, mean),
  );
  const blocks = [...new Set(candidates.map(({ block }) => block))];
  return quote(blocks.flatMap((block) => central.find((candidate) => candidate.block === block) ?? []));
}

function quote(candidates: Candidate[]): Quotation[] {
  const byText = new Map<string, Quotation>();
  for (const { text, block } of candidates) {
    const key = text.toLowerCase();
    if (!byText.has(key)) byText.set(key, { text, block });
  }
  return [...byText.values()].slice(0, MAX_QUOTATIONS);
}

function cosine(a: Float32Array, b: Float32Array): number {
  return a.reduce((sum, value, index) => sum + value * (b[index] ?? 0), 0);
}
