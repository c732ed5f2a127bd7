import { readFile } from 'node:fs/promises';
import { expect } from 'chai';
import { useTemporaryFolder } from '#test/support/temporary-folder.ts';
import { Report, type ReportOptions, repeatByFile } from '../../../scripts/test/report.ts';
import type { FailedTest, TestMessage } from '../../../scripts/test/reporter.ts';

const file = 'test/unit/x.test.ts';
const test = { kind: 'test', file, title: 'x (all) works', ms: 1 } as const;
const passed: TestMessage = { ...test, state: 'passed' };
const failed: FailedTest = { ...test, state: 'failed', error: 'Error: no', grep: test.title };
const skipped = (reason: string | null): TestMessage => ({ ...test, state: 'skipped', reason });

describe('the report of a test run', () => {
  const pathOf = useTemporaryFolder();
  let printed: string[];
  const { log } = console;
  beforeEach(() => {
    printed = [];
  });

  type Options = Partial<ReportOptions> & { extra?: string; level?: 'everyday' | 'system' };
  function codeOf(messages: readonly TestMessage[], { extra, level, ...options }: Options = {}): number {
    console.log = (line: string) => printed.push(...line.split('\n'));
    try {
      const report = new Report({
        resultsPath: pathOf('results.jsonl'),
        failOnSkip: 'unlisted',
        repeatCommand: (test) => repeatByFile(test, undefined),
        ...options,
      });
      for (const message of messages) report.add(message);
      report.addChecks({ passed: 1, failed: [] });
      if (extra !== undefined) report.addFailure(extra);
      if (level !== undefined) report.addStatusCoverage(level);
      return report.end({ usage: [], seconds: 1, notRun: [], logsDir: '/logs' });
    } finally {
      console.log = log;
    }
  }

  it('ends with the counts of tests and checks, and writes a line for each test', async () => {
    expect(codeOf([passed])).equal(0);
    expect(printed.at(-1)).equal('2 passed, 0 failed, 0 skipped');
    expect(await readFile(pathOf('results.jsonl'), 'utf8')).equal(`${JSON.stringify(passed)}\n`);
  });

  it('fails if no test ran, or if a test process failed though all tests passed', () => {
    expect(codeOf([])).equal(1);
    expect(printed).include('  ✖ No test has passed.');
    expect(codeOf([passed], { extra: 'A test process ended with 7 though no test failed' })).equal(1);
    expect(printed.at(-1)).equal('2 passed, 1 failed, 0 skipped');
  });

  it('fails for a declared response status that no test of any process has received', () => {
    const inS3 = ['POST /connectors/acme_s3/connections 201', 'POST /connectors/acme_s3/connections 409'];
    const declared = ['GET /jobs 200', 'GET /jobs 422', ...inS3];
    const statuses = (...answered: string[]) => ({ kind: 'statuses' as const, declared, answered });
    const everyday = (...messages: TestMessage[]) => codeOf([passed, ...messages], { level: 'everyday' });
    expect(everyday(statuses('GET /jobs 200'))).equal(1);
    expect(printed.join('\n')).include('No test has seen these declared statuses:\n      GET /jobs 422');
    expect(everyday(statuses('GET /jobs 200'), statuses('GET /jobs 422', 'GET /jobs 404'))).equal(0);
    expect(everyday()).equal(1);
    expect(everyday({ kind: 'statuses', declared: ['GET /jobs 200'], answered: ['GET /jobs 200'] })).equal(1);
    expect(codeOf([passed, statuses('GET /jobs 200')], { level: 'system' })).equal(1);
    expect(codeOf([passed, statuses(...inS3)], { level: 'system' })).equal(0);
    expect(codeOf([passed, statuses(), skipped('no Go')], { level: 'system' })).equal(0);
  });

  it('fails on a skipped test without a listed reason, or on any skipped test if required', () => {
    expect(codeOf([passed, skipped('no Go')])).equal(0);
    expect(codeOf([passed, skipped(null)])).equal(1);
    expect(codeOf([passed, skipped('no mood')])).equal(1);
    expect(codeOf([passed, skipped('no Go')], { failOnSkip: 'any' })).equal(1);
    expect(codeOf([passed, skipped(null)], { failOnSkip: 'none' })).equal(0);
  });

  it('shows each failure with the command that repeats the test, then the path of the logs, then the counts', () => {
    expect(codeOf([passed, failed])).equal(1);
    expect(printed).include(`      npm test -- ${file} --grep 'x \\(all\\) works'`);
    expect(printed.slice(-3)).deep.equal([`The services' logs are in /logs.`, '', '2 passed, 1 failed, 0 skipped']);
  });
});
