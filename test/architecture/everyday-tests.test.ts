import { globSync, readFileSync } from 'node:fs';
import { expect } from 'chai';

/** What lets the speed of the machine decide a test; docs/testing.md says what to do instead. */
const CLOCKS = [
  /\bthis\.timeout\(/,
  /\b(delay|sleep)\(/,
  /\bsetTimeout\(/,
  // Timers of a stack in the same process stop for good.
  /\bmock\.timers\b/,
  /expect\([^)]*(Date|performance)\.now\(\)/,
  /\buntil(Job|Run)?\([^\n]*, [\d_]{4,}\)/,
];

describe('everyday tests', () => {
  it('let no clock decide: no sleeps, no limits of their own, no compared times', () => {
    const found = globSync('test/{api,activities,workflows}/**/*.test.ts')
      .sort()
      .flatMap((file) =>
        readFileSync(file, 'utf8')
          .split('\n')
          .map((line, index) => ({ file, line, number: index + 1 })),
      )
      .filter(({ line }) => CLOCKS.some((clock) => clock.test(line)))
      .map(({ file, line, number }) => `${file}:${number} ${line.trim()}`);
    expect(found).deep.equal([]);
  });

  it('prepare only for tests of their own file: no root hooks, which run for all files of the process', () => {
    const found = globSync('{test,services}/**/*test.ts', { exclude: ['**/node_modules/**'] }).filter((file) =>
      /^(before|beforeEach|afterEach)\(/m.test(readFileSync(file, 'utf8')),
    );
    expect(found).deep.equal([]);
  });
});
