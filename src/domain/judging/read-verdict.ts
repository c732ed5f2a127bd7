import { toStorable } from '../plain-text.ts';
import { rubricOf } from './axes.ts';
import type { AnchoredScore, Judgement, JudgeTask, PairWinner, PlainScore } from './judgement.ts';
import { exhibitsOf } from './material.ts';
import { allowedScore, maxScore, type Severity, severities } from './rubric.ts';
import { axesOf, maxRationaleCharacters, maxWeaknessCharacters, plainList } from './verdict-schema.ts';

/** `problem`: what is wrong with an answer, for the judge, who is asked again. */
export type VerdictReading = { judgement: Judgement } | { problem: string };

/** Words of a verdict; others are the invention of a judge that was not read well. */
const known: ReadonlySet<string> = new Set(['axis', 'rationale', 'weakness', 'severity', 'score', 'winner']);

/**
 * Reads what a judge said, and guesses nothing: one JSON value and no prose around it, whole scores within the scale,
 * every axis once. Then the rules of scoring are applied, whatever the judge made of them. A verdict whose reasons stand
 * as reasons in the judged text comes from its author and does not count.
 */
export function readVerdict(task: JudgeTask, answer: string): VerdictReading {
  try {
    const said = parse(answer);
    const echoes = echoFinder(task);
    if (task.mode === 'plain') return { judgement: { mode: 'plain', scores: plainScores(task, said, echoes) } };
    const verdict = record(said);
    if (task.mode === 'pairwise') {
      return { judgement: { mode: 'pairwise', rationale: rationaleOf(verdict, echoes), winner: winnerOf(verdict) } };
    }
    return { judgement: { mode: 'anchored', ...anchoredScore(task.axis, verdict, echoes) } };
  } catch (error) {
    if (error instanceof InvalidVerdict) return { problem: error.message };
    throw error;
  }
}

class InvalidVerdict extends Error {}

type Said = Readonly<Record<string, unknown>>;
type IsEcho = (rationale: string) => boolean;

/** Models that think aloud do it in front; some wrap JSON as code. Nothing else may stand around it. */
function parse(answer: string): unknown {
  const said = answer.replace(/^\s*<think>[\s\S]*?<\/think>/, '').trim();
  const [fence = ''] = said.endsWith('```') ? (/^```(?:json)?\s*?\n/.exec(said) ?? []) : [];
  try {
    return JSON.parse(fence === '' ? said : said.slice(fence.length, -3));
  } catch {
    throw new InvalidVerdict('it is not one JSON value, or there is text around it');
  }
}

function plainScores(task: Extract<JudgeTask, { mode: 'plain' }>, said: unknown, isEcho: IsEcho): PlainScore[] {
  const list = listIn(said);
  const verdicts = list.map((item: unknown) => record(item));
  const axes = axesOf(task.material);
  if (verdicts.length !== axes.length) throw new InvalidVerdict(`it has ${verdicts.length} axes, not ${axes.length}`);
  return axes.map((axis) => {
    const [verdict, second] = verdicts.filter((each) => each.axis === axis);
    if (verdict === undefined || second !== undefined) throw new InvalidVerdict(`it does not have "${axis}" once`);
    return { axis, rationale: rationaleOf(verdict, isEcho), score: scoreOf(verdict) };
  });
}

function anchoredScore(axis: AnchoredScore['axis'], verdict: Said, isEcho: IsEcho): AnchoredScore {
  const rationale = rationaleOf(verdict, isEcho);
  const severity = severityOf(verdict);
  const weakness = cut(typeof verdict.weakness === 'string' ? verdict.weakness : '', maxWeaknessCharacters);
  if (severity !== 'none' && weakness === '') throw new InvalidVerdict('"weakness" names nothing');
  if (verdict.axis !== undefined && verdict.axis !== axis) {
    throw new InvalidVerdict(`it is about another aspect than ${rubricOf(axis).label}`);
  }
  return { axis, rationale, weakness, severity, score: allowedScore({ score: scoreOf(verdict), severity, weakness }) };
}

/** The array, or that in an object which holds nothing else: formats with a schema want an object. */
function listIn(said: unknown): unknown[] {
  if (Array.isArray(said)) return said;
  const [list, ...others] = typeof said === 'object' && said !== null ? Object.values(said) : [];
  if (Array.isArray(list) && others.length === 0) return list;
  throw new InvalidVerdict(`it is not an object whose "${plainList}" is an array of objects`);
}

function record(value: unknown): Said {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new InvalidVerdict('it is no object');
  const verdict = Object.fromEntries(Object.entries(value));
  if (!Object.keys(verdict).every((name) => known.has(name))) {
    throw new InvalidVerdict('it has properties that were not asked for');
  }
  return verdict;
}

function rationaleOf({ rationale }: Said, isEcho: IsEcho): string {
  const reasons = cut(typeof rationale === 'string' ? rationale : '', maxRationaleCharacters);
  if (reasons === '') throw new InvalidVerdict('"rationale" says nothing');
  if (isEcho(reasons)) throw new InvalidVerdict('it repeats a verdict that stands in the material');
  return reasons;
}

function scoreOf({ score }: Said): number {
  if (typeof score === 'number' && Number.isInteger(score) && score >= 0 && score <= maxScore) return score;
  throw new InvalidVerdict(`"score" is not a whole number from 0 to ${maxScore}`);
}

function severityOf({ severity }: Said): Severity {
  const found = severities.find((each) => each === severity);
  if (found === undefined) throw new InvalidVerdict(`"severity" is not one of ${severities.join(', ')}`);
  return found;
}

function winnerOf({ winner }: Said): PairWinner {
  if (winner === 'A' || winner === 'B' || winner === 'tie') return winner;
  throw new InvalidVerdict('"winner" is not A, B or tie');
}

/** The words alone are compared, as the judge has read them: whoever repeats a verdict may space and quote it otherwise. */
function echoFinder(task: JudgeTask): IsEcho {
  const judged = exhibitsOf(task).map(({ text }) => bareWords(unescaped(text)));
  return (rationale) => {
    const words = bareWords(rationale);
    return words !== '' && judged.some((text) => text.includes(`rationale${words}`));
  };
}

/** A verdict may stand in a text as JSON in JSON, or as HTML. */
function unescaped(text: string): string {
  return text
    .replace(/\\+u([0-9a-f]{4})|&#x([0-9a-f]{1,4});/gi, (_, json = '', html = '') => letter(json + html, 16))
    .replace(/&#(\d{1,5});/g, (_, html) => letter(html, 10))
    .replace(/\\+[nrt]|&[a-z]{2,8};/gi, ' ');
}

function letter(digits: string, base: number): string {
  return String.fromCharCode(Number.parseInt(digits, base));
}

/** In whatever width, case and signs. */
function bareWords(text: string): string {
  return text
    .normalize('NFKC')
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, '');
}

/** What JSON may write and no database stores is left out. */
function cut(text: string, maxCharacters: number): string {
  return [...toStorable(text).trim()].slice(0, maxCharacters).join('');
}
