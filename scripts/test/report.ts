import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { SKIP_REASONS, type SkipReason } from '../../test/support/skip.ts';
import type { CheckTally } from '../checks.ts';
import type { FailedTest, TestMessage } from './reporter.ts';
import type { Usage } from './usage.ts';

const SLOWEST = 10;
/** Statuses that only system tests see, because they need an S3 server. */
const IN_SYSTEM_TESTS = new Set([
  'POST /connectors/acme_s3/connections 201',
  'POST /connectors/acme_s3/connections 409',
]);
const ERROR_LINES = 20;

type TestResult = Extract<TestMessage, { kind: 'test' }>;

export type ReportOptions = {
  resultsPath: string;
  /** `unlisted` fails the run if a test is skipped without a reason from test/support/skip.ts. */
  failOnSkip: 'any' | 'unlisted' | 'none';
  /** Returns the command that runs this test again, or all tests whose hook failed. */
  repeatCommand: (failed: FailedTest) => string;
};

export class Report {
  readonly #results: TestResult[] = [];
  readonly #fileSeconds = new Map<string, number>();
  readonly #otherFailures: string[] = [];
  #otherPassed = 0;
  readonly #declaredStatuses = new Set<string>();
  readonly #answeredStatuses = new Set<string>();
  readonly #options: ReportOptions;

  constructor(options: ReportOptions) {
    this.#options = options;
    mkdirSync(dirname(options.resultsPath), { recursive: true });
    writeFileSync(options.resultsPath, '');
  }

  get fileSeconds(): ReadonlyMap<string, number> {
    return this.#fileSeconds;
  }

  add(message: TestMessage): void {
    if (message.kind === 'test') this.#addTest(message);
    if (message.kind === 'file') this.#addFile(message.file, message.ms / 1_000);
    if (message.kind === 'statuses') {
      for (const status of message.declared) this.#declaredStatuses.add(status);
      for (const status of message.answered) this.#answeredStatuses.add(status);
    }
  }

  addFailure(message: string): void {
    this.#otherFailures.push(message);
    console.log(`  ✖ ${message}`);
  }

  addChecks({ passed, failed }: CheckTally): void {
    this.#otherPassed += passed;
    this.#otherFailures.push(...failed.map((name) => `${name} (npm run check)`));
  }

  /**
   * Prints how many of the statuses that routes declare were answered in this run, and fails for the others.
   * @param level the everyday run sees all but `IN_SYSTEM_TESTS`; the system run has to see these, unless it lacks Go for its S3 server
   */
  addStatusCoverage(level: 'everyday' | 'system'): void {
    const lacksGo = this.#results.some((result) => result.state === 'skipped' && result.reason === 'no Go');
    if (level === 'system' && lacksGo) return;
    const isExpected = (status: string) => IN_SYSTEM_TESTS.has(status) === (level === 'system');
    const declared = [...this.#declaredStatuses].filter(isExpected);
    const missing = declared.filter((status) => !this.#answeredStatuses.has(status)).toSorted();
    const unknown = [...IN_SYSTEM_TESTS].filter((status) => !this.#declaredStatuses.has(status));
    console.log(`\nDeclared statuses: ${declared.length - missing.length} of ${declared.length} answered`);
    if (unknown.length > 0) this.#otherFailures.push(`No route declares these statuses: ${unknown.join(', ')}`);
    if (declared.length === 0)
      this.#otherFailures.push('No test process has reported the statuses that routes declare.');
    else if (missing.length === 0) this.#otherPassed += 1;
    else this.#otherFailures.push(`No test has seen these declared statuses:\n${indent(missing.join('\n'))}`);
  }

  #addTest(result: TestResult): void {
    this.#results.push(result);
    appendFileSync(this.#options.resultsPath, `${JSON.stringify(result)}\n`);
    if (result.state === 'failed') console.log(`  ✖ ${result.title}\n${indent(result.error)}`);
  }

  #addFile(file: string, seconds: number): void {
    this.#fileSeconds.set(file, seconds);
    const results = this.#results.filter((result) => result.file === file);
    const count = (state: TestResult['state']) => results.filter((result) => result.state === state).length;
    const others = (['failed', 'skipped'] as const).filter(count).map((state) => `, ${count(state)} ${state}`);
    console.log(
      `  ${count('failed') > 0 ? '✖' : '✔'} ${file}: ${count('passed')}${others.join('')} (${seconds.toFixed(1)} s)`,
    );
  }

  /**
   * Prints the summary, whose last line is `N passed, N failed, N skipped`. A run without a passed test fails.
   * @param options.notRun tests that this level leaves to other commands
   * @param options.logsDir folder of the services' logs; null without services
   * @returns the exit code
   */
  end(options: {
    usage: readonly Usage[];
    seconds: number;
    notRun: readonly string[];
    logsDir: string | null;
  }): number {
    const passedTests = this.#results.filter((result) => result.state === 'passed').length;
    const skipped = this.#results.filter((result) => result.state === 'skipped');
    this.#printSlowest();
    printUsage(options.usage, options.seconds);
    const isListed = (reason: string | null) => reason !== null && reason in SKIP_REASONS;
    const { failOnSkip, repeatCommand } = this.#options;
    const wronglySkipped = skipped.filter(
      ({ reason }) => failOnSkip === 'any' || (failOnSkip === 'unlisted' && !isListed(reason)),
    );
    const failures = [
      ...this.#results.flatMap((result) =>
        result.state === 'failed'
          ? `${result.title}\n      ${repeatCommand(result)}\n${indent(firstLines(result.error))}`
          : [],
      ),
      ...this.#otherFailures,
      ...wronglySkipped.map(
        ({ title, reason }) =>
          `${title}: skipped${isListed(reason) ? ` (${reason})` : ' without a reason of test/support/skip.ts'}`,
      ),
    ];
    if (failures.length === 0 && passedTests === 0) failures.push('No test has passed.');
    if (failures.length > 0) console.log('\nFailed:');
    for (const failure of failures) console.log(`  ✖ ${failure}`);
    const notTested = [...Map.groupBy(skipped, ({ reason }) => reason)].map(
      ([reason, tests]) => `${tests.length} tests: ${SKIP_REASONS[reason as SkipReason] ?? 'no reason given'}`,
    );
    if (notTested.length + options.notRun.length > 0) console.log('\nNot tested:');
    for (const line of [...notTested, ...options.notRun]) console.log(`  - ${line}`);
    if (failures.length > 0 && options.logsDir !== null) console.log(`\nThe services' logs are in ${options.logsDir}.`);
    console.log(`\n${passedTests + this.#otherPassed} passed, ${failures.length} failed, ${skipped.length} skipped`);
    return failures.length === 0 ? 0 : 1;
  }

  #printSlowest(): void {
    const slowest = this.#results.toSorted((a, b) => b.ms - a.ms).slice(0, SLOWEST);
    if (slowest.length < SLOWEST) return;
    console.log('\nSlowest:');
    for (const { title, ms } of slowest) console.log(`  ${(ms / 1_000).toFixed(1).padStart(6)} s  ${title}`);
  }
}

function printUsage(usage: readonly Usage[], seconds: number): void {
  console.log(`\n${'Time'.padEnd(16)} ${seconds.toFixed(0).padStart(6)} s`);
  for (const { kind, cpuSeconds, peakBytes } of usage) {
    const memory = `${Math.round(peakBytes / 1024 ** 2)} MB`.padStart(8);
    console.log(`${kind.padEnd(16)} ${cpuSeconds.toFixed(0).padStart(6)} CPU-s ${memory}`);
  }
}

function firstLines(text: string): string {
  const lines = text.split('\n');
  return lines.length <= ERROR_LINES ? text : [...lines.slice(0, ERROR_LINES), '…'].join('\n');
}

function indent(text: string): string {
  return text.replaceAll(/^/gm, '      ');
}

/** Command that repeats an everyday or system test. A failed root hook has no file and no title. */
export function repeatByFile({ file, grep }: FailedTest, seed: string | undefined): string {
  const args = [file, grep && `--grep ${quote(grep)}`, seed && `--seed ${seed}`].filter(Boolean);
  return ['npm test', ...(args.length > 0 ? ['--'] : []), ...args].join(' ');
}

/** Quotes a title for the shell as a regular expression for `--grep`. */
function quote(title: string): string {
  return `'${title.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&').replaceAll("'", `'\\''`)}'`;
}
