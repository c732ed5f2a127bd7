import { appendFileSync } from 'node:fs';
import { median } from './median.ts';

export type Measurement = {
  /** A performance goal such as `P3`, or the name of the benchmark if no goal names the figure. */
  goal: string;
  what: string;
  unit?: string;
  /** The measured value, or that of each round. */
  rounds: number | readonly number[];
  peer?: string;
  /** The product's value divided by the peer's, or the other way round, as the goal says it. */
  ratios?: number | readonly number[];
  /** The limit is that of the ratio if there is one, otherwise that of the measured value. */
  atLeast?: number;
  atMost?: number;
};

/** A measurement as bench/results.json keeps it: medians, and the spread of what the limit is for. */
export type Row = {
  goal: string;
  what: string;
  unit: string;
  measured: number;
  peer?: string;
  ratio?: number;
  low: number;
  high: number;
  rounds: number;
  atLeast?: number;
  atMost?: number;
  isMet?: boolean;
};

/** Latencies (p95, in milliseconds) of a request by the number of rows in its list, for the plot. */
export type Curve = { of: string; kind: string; name: string; p95: Record<string, number> };

/** A line of the file that `BENCH_RESULTS` names. */
export type Line = { row: Row } | { curve: Curve } | { skipped: string };

/** The number of rounds to run: at most `BENCH_ROUNDS`, which `npm run bench -- --quick` sets to 1. */
export function roundsOf(wanted: number): number {
  return Math.min(wanted, Number(process.env.BENCH_ROUNDS ?? wanted));
}

/** Prints a measurement, and appends it to the file that `BENCH_RESULTS` names. */
export function report(measurement: Measurement): void {
  const row = rowOf(measurement);
  console.log(`${row.goal}: ${row.what}: ${inWords(row)}`);
  append({ row });
}

export function reportCurve(curve: Curve): void {
  append({ curve });
}

/** Prints and records that a part was not measured, and why. */
export function reportSkipped(what: string): void {
  console.log(`Not measured: ${what}`);
  append({ skipped: what });
}

export function rowOf({ goal, what, unit = '', peer, atLeast, atMost, ...values }: Measurement): Row {
  const rounds = [values.rounds].flat();
  const ratios = values.ratios === undefined ? undefined : [values.ratios].flat();
  const limited = ratios ?? rounds;
  const value = median(limited);
  return {
    ...{ goal, what, unit, measured: rounded(median(rounds)) },
    ...(peer !== undefined && { peer }),
    ...(ratios !== undefined && { ratio: rounded(value) }),
    ...{ low: rounded(Math.min(...limited)), high: rounded(Math.max(...limited)), rounds: limited.length },
    ...(atLeast !== undefined && { atLeast: rounded(atLeast), isMet: value >= atLeast }),
    ...(atMost !== undefined && { atMost: rounded(atMost), isMet: value <= atMost }),
  };
}

export function limitOf({ atLeast, atMost }: Row): string {
  if (atLeast !== undefined) return `at least ${atLeast}`;
  return atMost === undefined ? '' : `at most ${atMost}`;
}

export function spreadOf({ low, high, rounds }: Row): string {
  return rounds === 1 ? '' : `${low}–${high} (${rounds})`;
}

function inWords(row: Row): string {
  const limit = limitOf(row);
  return [
    `${row.measured} ${row.unit}`.trim(),
    ...(row.ratio === undefined ? [] : [`${row.ratio} to ${row.peer}`]),
    ...(row.rounds === 1 ? [] : [`${spreadOf(row)} rounds`]),
    ...(limit === '' ? [] : [`goal ${limit}: ${row.isMet ? 'met' : 'MISSED'}`]),
  ].join('; ');
}

/** Three significant digits, and no fraction above a thousand. */
function rounded(value: number): number {
  return Math.abs(value) >= 1_000 ? Math.round(value) : Number(value.toPrecision(3));
}

function append(line: Line): void {
  const file = process.env.BENCH_RESULTS;
  if (file !== undefined) appendFileSync(file, `${JSON.stringify(line)}\n`);
}
