import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { drawCurves } from './plot.ts';
import { type Curve, limitOf, type Row, spreadOf } from './report.ts';

/** The figures of one benchmark of `npm run bench`, with the reason if it or a part of it was not measured. */
export type BenchmarkRun = {
  benchmark: string;
  goals: string[];
  date: string;
  commit: string;
  machine: string;
  load: number;
  seconds: number;
  isQuick?: boolean;
  failure?: string;
  skipped: string[];
  rows: Row[];
  curves: Curve[];
};

const root = join(import.meta.dirname, '..');
const resultsPath = join(import.meta.dirname, 'results.json');
const [begin, end] = ['<!-- begin: npm run bench -->', '<!-- end: npm run bench -->'];

export function readRuns(): BenchmarkRun[] {
  try {
    return JSON.parse(readFileSync(resultsPath, 'utf8'));
  } catch (error) {
    if (Object(error).code === 'ENOENT') return [];
    throw error;
  }
}

/** Writes a row on each line, so that differences between two versions are readable. */
export function writeRuns(runs: readonly BenchmarkRun[]): void {
  const lines = (values: readonly object[]) => values.map((value) => `\n      ${JSON.stringify(value)}`).join(',');
  const written = runs.map(({ rows, curves, ...run }) => {
    const head = JSON.stringify(run).slice(0, -1);
    return `  ${head},\n    "rows": [${lines(rows)}],\n    "curves": [${lines(curves)}]}`;
  });
  writeFileSync(resultsPath, `[\n${written.join(',\n')}\n]\n`);
}

/** Replaces the table of docs/benchmarks.md, and draws the curves if there are any. */
export function writePage(runs: readonly BenchmarkRun[]): void {
  const path = join(root, 'docs', 'benchmarks.md');
  const page = readFileSync(path, 'utf8');
  const [before, after] = [page.split(begin)[0], page.split(end)[1]];
  if (before === undefined || after === undefined)
    throw new Error(`docs/benchmarks.md has no lines ${begin} and ${end}.`);
  writeFileSync(path, [before + begin, '', ...tableOf(runs), '', end + after].join('\n'));
  const curves = runs.flatMap((run) => run.curves);
  if (curves.length > 0) writeFileSync(join(root, 'docs', 'list-costs.svg'), drawCurves(curves));
}

export function tableOf(runs: readonly BenchmarkRun[]): string[] {
  const rows = runs.flatMap((run) => [
    ...run.rows.map((row) => ({ goal: row.goal, cells: cellsOf(row), run })),
    ...[...run.skipped, ...(run.failure === undefined ? [] : [run.failure])].map((reason) => ({
      ...{ goal: run.goals.join(', ') || run.benchmark, run },
      cells: [`\`${run.benchmark}\`: not measured: ${reason}`, '', '', '', ''],
    })),
  ]);
  // Goals in the order of their numbers, then figures without a goal.
  const place = (goal: string) => Number(/^P(\d+)/.exec(goal)?.[1] ?? Number.POSITIVE_INFINITY);
  const sorted = rows.toSorted((a, b) => place(a.goal) - place(b.goal) || 0);
  const limited = runs.flatMap((run) => run.rows).filter(({ isMet }) => isMet !== undefined);
  const durations = runs.map((run) => `${run.benchmark} ${(run.seconds / 60).toFixed(1)}`);
  const loads = runs.map(({ load }) => load);
  const machines = [...new Set(runs.map(({ machine }) => machine))];
  return [
    `${limited.filter(({ isMet }) => isMet).length} of ${limited.length} limits are met. ${machines.join('; ')}; load average before a benchmark ${Math.min(...loads)} to ${Math.max(...loads)}.`,
    '',
    '| Goal | What is measured | Measured | Ratio | Spread (rounds) | Limit | Date, commit |',
    '|---|---|---|---|---|---|---|',
    ...sorted.map(({ goal, cells, run }) => {
      const measuredAt = `${run.date}, ${run.commit}${run.isQuick ? ', quick' : ''}`;
      return `| ${[goal, ...cells, measuredAt].map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
    }),
    '',
    `Minutes of each benchmark: ${durations.join(', ')}.`,
  ];
}

function cellsOf(row: Row): string[] {
  const limit = limitOf(row);
  return [
    row.what,
    `${row.measured} ${row.unit}`.trim(),
    row.ratio === undefined ? '' : `${row.ratio} (${row.peer})`,
    spreadOf(row),
    limit === '' ? '' : `${limit}: ${row.isMet ? 'met' : '**missed**'}`,
  ];
}
