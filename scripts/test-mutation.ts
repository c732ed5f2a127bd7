// `npm run test:mutation [-- src/domain/retrieval/fusion.ts …]`: changes one expression of the domain rules at a time, by
// Stryker, and expects a unit test to fail for each change. Prints the changes that no test noticed.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, globSync } from 'node:fs';
import { mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { z } from 'zod';
import { installOnce } from './bootstrap/once.mjs';
import { readTestServiceSettings } from './settings.ts';
import { dieWithParent } from './supervisor/parent-death.ts';
import { exitAfter } from './supervisor/run-until-stopped.ts';
import { importsOf } from './test/imports.ts';
import type { TestsOfFiles } from './test/mutation-runner.ts';

const STRYKER = '@stryker-mutator/core@10.1.1';
/** Percentage of the changes that a test has to notice. */
const LEAST_SCORE = 90;
/** Log messages and texts that models read: a test of their exact words would only repeat them. */
const EXCLUDED_MUTATIONS = ['StringLiteral', 'Regex'];

const reportSchema = z.object({
  files: z.record(
    z.string(),
    z.object({
      mutants: z.array(
        z.object({
          status: z.string(),
          mutatorName: z.string(),
          replacement: z.string().optional(),
          location: z.object({ start: z.object({ line: z.int() }) }),
        }),
      ),
    }),
  ),
});
type Mutant = z.output<typeof reportSchema>['files'][string]['mutants'][number];

await exitAfter(async () => {
  const stryker = await installStryker();
  const asked = process.argv.slice(2);
  const files = asked.length > 0 ? asked : globSync('src/domain/**/*.ts').toSorted();
  const mutants = await mutate(stryker, testsOf(files));
  let [noticed, total] = [0, 0];
  for (const file of files) {
    const ofFile = mutants[file] ?? [];
    const survivors = ofFile.filter(({ status }) => !['Killed', 'Timeout'].includes(status));
    noticed += ofFile.length - survivors.length;
    total += ofFile.length;
    console.log(`${file}: ${ofFile.length - survivors.length} of ${ofFile.length} changes noticed`);
    for (const { location, mutatorName, replacement = '' } of survivors) {
      console.log(
        `  ${file}:${location.start.line} ${mutatorName}: ${replacement.replaceAll(/\s+/g, ' ').slice(0, 100)}`,
      );
    }
  }
  const score = (100 * noticed) / Math.max(1, total);
  console.log(`\nScore ${score.toFixed(1)} %, at least ${LEAST_SCORE} %`);
  console.log(`${noticed} passed, ${total - noticed} failed`);
  return score >= LEAST_SCORE ? 0 : 1;
});

/** Installs Stryker beside the tools of the embedded services: its 60 MB are no part of `npm ci`. */
async function installStryker(): Promise<string> {
  const { toolsDir } = readTestServiceSettings(process.env);
  const folder = join(dirname(toolsDir), STRYKER.replaceAll(/\W+/g, '-').replace(/^-/, ''));
  const program = join(folder, 'node_modules/@stryker-mutator/core/bin/stryker.js');
  await installOnce({
    what: 'Stryker',
    size: '60 MB in your cache',
    lockPath: `${folder}.lock`,
    isDone: () => existsSync(program),
    install: async () => {
      const draft = `${folder}.new`;
      await rm(draft, { recursive: true, force: true });
      await promisify(execFile)('npm', ['install', '--prefix', draft, '--no-save', '--ignore-scripts', STRYKER]);
      await rename(draft, folder);
    },
  });
  return program;
}

/**
 * The unit tests that run for changes of each file: those that import the file, or a file that imports it. Where there are
 * none, all that reach it. Tests that import no rule are left out, because they are about other things.
 */
function testsOf(files: readonly string[]): TestsOfFiles {
  const tests = globSync('test/unit/**/*.test.ts')
    .filter((test) => importsOf(test).some((file) => file.startsWith('src/domain/')))
    .map((test) => ({ test, steps: stepsFrom(test) }));
  const within = (file: string, limit: number) =>
    tests.filter(({ steps }) => (steps.get(file) ?? Number.POSITIVE_INFINITY) <= limit).map(({ test }) => test);
  return Object.fromEntries(
    files.map((file) => {
      const near = within(file, 2);
      return [file, near.length > 0 ? near : within(file, Number.MAX_SAFE_INTEGER)];
    }),
  );
}

/** Returns the files that a test imports, directly or not, with the number of imports between. */
function stepsFrom(test: string): ReadonlyMap<string, number> {
  const steps = new Map([[test, 0]]);
  for (const [file, step] of steps) {
    for (const imported of importsOf(file)) {
      if (!steps.has(imported) && existsSync(imported)) steps.set(imported, step + 1);
    }
  }
  return steps;
}

async function mutate(stryker: string, tests: TestsOfFiles): Promise<Readonly<Record<string, readonly Mutant[]>>> {
  const folder = await mkdtemp(join(tmpdir(), 'mutation-'));
  const config = join(folder, 'stryker.json');
  const reportPath = join(folder, 'report.json');
  await writeFile(
    config,
    JSON.stringify({
      mutate: Object.keys(tests),
      mutator: { excludedMutations: EXCLUDED_MUTATIONS },
      plugins: [resolve('scripts/test/mutation-runner.ts')],
      testRunner: 'mocha',
      testsOf: tests,
      coverageAnalysis: 'perTest',
      concurrency: availableParallelism(),
      // A test that takes longer counts as failed, so a busy machine needs time.
      timeoutFactor: 4,
      reporters: ['json'],
      jsonReporter: { fileName: reportPath },
      tempDirName: join(folder, 'copies'),
      // A config of TypeScript would be rewritten, for which Stryker needs TypeScript itself.
      tsconfigFile: 'none.json',
      ignorePatterns: ['.*'],
      allowEmpty: true,
    }),
  );
  const [program, ...args] = dieWithParent([process.execPath, stryker, 'run', config], 'SIGTERM');
  const child = spawn(program, args, { stdio: ['ignore', 'ignore', 'inherit'] });
  const [code] = await once(child, 'exit');
  if (code !== 0 || !existsSync(reportPath))
    throw new Error('Stryker could not change the rules: do their unit tests pass?');
  const report = reportSchema.parse(JSON.parse(await readFile(reportPath, 'utf8')));
  await rm(folder, { recursive: true, force: true });
  return Object.fromEntries(
    Object.entries(report.files).map(([file, { mutants }]) => [
      file,
      mutants.filter(({ status }) => status !== 'Ignored'),
    ]),
  );
}
