import { contentWords } from './content-words.ts';
import type { ContextBlock } from './context-blocks.ts';
import { expectedInAnswer } from './question-words.ts';
import { type Field, type Statement, splitIntoStatements, textOfRow } from './statements.ts';

export type Quotation = { text: string; block: number };
export type EmbedTexts = (texts: string[]) => Promise<Float32Array[]>;

type Passage = { block: ContextBlock; words: Set<string>; candidates: Candidate[] };
/** `around` has the words of the statement, its heading and the statement before it. */
type Candidate = Statement & { block: ContextBlock; own: Set<string>; around: Set<string> };
type Scored = { candidate: Candidate; score: number };

/**
 * Points of a statement, fitted by logistic regression on questions in five languages (XQuAD, chroma_chunking and some
 * of our own): for the share of the question's words in the statement, and there or around it; for the share of words
 * that its passage and document lack; for the cosine of embeddings; for what the question asks for, such as a date; for a
 * title; and for the rank of its passage.
 */
const POINTS = { own: 5, around: 4, missing: -6, meaning: 2, expected: 0.5, topic: -1.5, rank: 2 } as const;
/** Minimum points: of questions about other paragraphs of the same articles up to 8 % reach them. */
const MIN_SCORE = 4.5;
/** A second statement is quoted if it has almost as many points as the best. */
const MAX_BEHIND_BEST = 0.7;
const MAX_QUOTATIONS = 2;
/** Only the best statements by words are embedded, which takes 0.1 s. */
const MAX_EMBEDDED = 20;
/** Names are often in the passages of questions that they do not answer, so a missing name counts half. */
const NAME_WEIGHT = 0.5;
/** Short words of languages without a list of function words, such as "de" and "der". */
const SHORT_WORD = /^[\p{Script=Latin}\p{Script=Cyrillic}]{1,3}$/u;
const SHORT_WORD_WEIGHT = 0.5;
/** An inflected form counts less than the same word. It shares this part of the longer word, at least four letters. */
const INFLECTED_WEIGHT = 0.8;
const MIN_SHARED_PART = 0.65;
const MIN_SHARED_LETTERS = 4;
/** Numbers and codes such as "KX 204" or "SO-5107", without years: a passage that lacks them has no answer. */
const CODE = /^(?!(?:19|20)\p{N}\p{N}$)(?=.*\p{N})(?:.*\p{N}{3}|.*\p{L}\p{N}|.*\p{N}\p{L})/u;

/** Words of requests such as "Summarize this document": a question without any other word asks for an overview. */
const OVERVIEW_WORDS = contentWords(
  'summarize summary overview describe explain main key point topic content document file text page',
);
const MAX_OVERVIEW_QUOTATIONS = 3;

/**
 * Finds the statements that answer the question best, best first; empty if none is relevant. Numbers and codes of the
 * question must be in the passage or in the name of its document.
 */
export async function findQuotations(
  question: string,
  blocks: ContextBlock[],
  embed: EmbedTexts,
): Promise<Quotation[]> {
  const words = [...contentWords(question)];
  const passages = blocks.map(readPassage);
  if (words.every((word) => OVERVIEW_WORDS.has(word))) return quoteOverview(passages, embed);
  const codes = words.filter((word) => CODE.test(word));
  const withCodes = passages.filter((passage) => codes.every((code) => passage.words.has(code)));
  const byWords = scoreByWords(question, words, withCodes).slice(0, MAX_EMBEDDED);
  const [questionVector, ...vectors] = await embed([question, ...byWords.map(({ candidate }) => candidate.context)]);
  const scored = byWords
    .map(({ candidate, score }, index) => {
      const meaning = cosine(questionVector ?? new Float32Array(), vectors[index] ?? new Float32Array());
      return { candidate, score: score + POINTS.meaning * meaning };
    })
    .sort((a, b) => b.score - a.score);
  const least = Math.max(MIN_SCORE, (scored[0]?.score ?? 0) - MAX_BEHIND_BEST);
  const best = scored.filter(({ score, candidate: { isTopic } }, index) => score >= least && (index === 0 || !isTopic));
  return quote(
    best.map(({ candidate }) => candidate),
    words,
  ).slice(0, MAX_QUOTATIONS);
}

function readPassage(block: ContextBlock): Passage {
  const candidates = splitIntoStatements(block.text).map((statement): Candidate => {
    const around = contentWords(`${statement.context} ${statement.before}`);
    return { ...statement, block, own: contentWords(statement.text), around };
  });
  return { block, words: contentWords(`${block.document} ${block.text}`), candidates };
}

function scoreByWords(question: string, words: readonly string[], passages: readonly Passage[]): Scored[] {
  const shareIn = rarityShares(
    words,
    passages.flatMap(({ candidates }) => candidates),
  );
  const names = namesIn(question);
  const weightOf = (word: string) => (names.has(word) ? NAME_WEIGHT : SHORT_WORD.test(word) ? SHORT_WORD_WEIGHT : 1);
  const expected = expectedInAnswer(question);
  const scored = passages.flatMap((passage, rank) => {
    const missing = words.filter((word) => matchIn(word, passage.words) === 0);
    const ofPassage =
      POINTS.missing * (sum(missing.map(weightOf)) / Math.max(1, sum(words.map(weightOf)))) + POINTS.rank / (1 + rank);
    return passage.candidates.map((candidate) => {
      const isAsExpected = expected === null ? 0 : expected.test(candidate.text) ? 1 : -1;
      const score =
        ofPassage +
        POINTS.own * shareIn(candidate.own) +
        POINTS.around * shareIn(candidate.around) +
        POINTS.expected * isAsExpected +
        (candidate.isTopic ? POINTS.topic : 0);
      return { candidate, score };
    });
  });
  return scored.sort((a, b) => b.score - a.score);
}

/** Returns a function that computes which share of the question's words a text has, weighting rare words more (idf). */
function rarityShares(words: readonly string[], candidates: readonly Candidate[]): (text: Set<string>) => number {
  const weighted = words.map((word) => {
    const holders = sum(candidates.map(({ around }) => matchIn(word, around)));
    const rarity = Math.log(1 + candidates.length / (0.5 + holders));
    return { word, weight: rarity * (SHORT_WORD.test(word) ? SHORT_WORD_WEIGHT : 1) };
  });
  const total = sum(weighted.map(({ weight }) => weight));
  return (text) => (total > 0 ? sum(weighted.map(({ word, weight }) => weight * matchIn(word, text))) / total : 0);
}

/** Returns 1 if a text has a word, less if it has only another form of it, else 0. */
function matchIn(word: string, text: ReadonlySet<string>): number {
  if (text.has(word)) return 1;
  if (word.length < MIN_SHARED_LETTERS || /\p{N}/u.test(word)) return 0;
  for (const other of text) if (isOtherForm(word, other)) return INFLECTED_WEIGHT;
  return 0;
}

function isOtherForm(one: string, other: string): boolean {
  const longest = Math.max(one.length, other.length);
  const shared = Math.max(MIN_SHARED_LETTERS, Math.ceil(longest * MIN_SHARED_PART));
  return other.length >= shared && one.length >= shared && other.startsWith(one.slice(0, shared));
}

/** Returns the stems of capitalized words after the first word. */
function namesIn(question: string): Set<string> {
  const [, ...words] = question.match(/[\p{L}\p{M}\p{N}]+/gu) ?? [];
  return contentWords(words.filter((word) => /^\p{Lu}/u.test(word)).join(' '));
}

/**
 * Returns the text to quote. Of a table row these are the columns that the question names and those that hold its words;
 * all columns if it names none.
 */
function textFor({ text, fields }: Candidate, words: readonly string[]): string {
  if (!fields) return text;
  const longWords = words.filter((word) => !SHORT_WORD.test(word));
  const wordsIn = (part: string) => {
    const held = contentWords(part);
    return sum(longWords.map((word) => matchIn(word, held)));
  };
  const given = new Set<Field>(fields.filter(({ value }) => wordsIn(value) > 0));
  const named = new Map(fields.slice(1).map((field) => [field, given.has(field) ? 0 : wordsIn(field.name)]));
  const most = Math.max(0, ...named.values());
  return textOfRow(fields, (field) => most === 0 || given.has(field) || named.get(field) === most);
}

async function quoteOverview(passages: Passage[], embed: EmbedTexts): Promise<Quotation[]> {
  const all = passages.flatMap(({ candidates }) => candidates);
  const sentences = all.filter(({ text }) => /[.!]$/.test(text));
  const candidates = sentences.length > 0 ? sentences : all;
  const vectors = await embed(candidates.map(({ context }) => context));
  const mean = vectors.reduce<Float32Array>(
    (total, vector) => vector.map((value, index) => value + (total[index] ?? 0)),
    new Float32Array(),
  );
  const central = candidates
    .map((candidate, index) => ({ candidate, closeness: cosine(vectors[index] ?? mean, mean) }))
    .sort((a, b) => b.closeness - a.closeness)
    .map(({ candidate }) => candidate);
  const ofEach = passages.flatMap(({ block }) => central.find((candidate) => candidate.block === block) ?? []);
  return quote(ofEach, []).slice(0, MAX_OVERVIEW_QUOTATIONS);
}

function quote(candidates: readonly Candidate[], words: readonly string[]): Quotation[] {
  const byText = new Map<string, Quotation>();
  for (const candidate of candidates) {
    const text = textFor(candidate, words);
    const key = text.toLowerCase();
    if (!byText.has(key)) byText.set(key, { text, block: candidate.block.number });
  }
  return [...byText.values()];
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

function cosine(a: Float32Array, b: Float32Array): number {
  return a.reduce((total, value, index) => total + value * (b[index] ?? 0), 0);
}
