import { globSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { expect } from 'chai';
import { FAULT_ROWS } from '../../scripts/test/fault-rows.ts';

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

describe('test files', () => {
  it('have names with a known level, such as .test.ts for everyday tests and .system-test.ts for system tests', () => {
    const found = globSync('{test,services}/**/*test.ts', { exclude: ['**/node_modules/**'] }).filter(
      (file) => !/\.(test|system-test|faults-test|models-test)\.ts$/.test(file),
    );
    expect(found).deep.equal([]);
  });

  it('of fault drills are listed for the full run if they can run at full size, and every listed file exists', () => {
    const rows = new Set(Object.values(FAULT_ROWS).map(({ file }) => file));
    const drills = globSync('test/faults/*test.ts')
      .filter((file) => file.endsWith('.faults-test.ts') || /\bisFullRun\b/.test(readFileSync(file, 'utf8')))
      .map((file) => basename(file));
    expect([...rows]).to.include.members(drills);
    expect(globSync('test/faults/*test.ts').map((file) => basename(file))).to.include.members([...rows]);
  });
});

describe('tests of the API, activities and workflows', () => {
  it('do not depend on the clock: no sleeps, no timeouts of their own, no compared times', () => {
    const found = globSync(['test/{api,activities,workflows}/**/*.test.ts', 'test/support/*stack.ts'])
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

  it('define no Mocha root hooks, which would run for all test files of the process', () => {
    const found = globSync('{test,services}/**/*test.ts', { exclude: ['**/node_modules/**'] }).filter((file) =>
      /^(before|beforeEach|afterEach)\(/m.test(readFileSync(file, 'utf8')),
    );
    expect(found).deep.equal([]);
  });
});
