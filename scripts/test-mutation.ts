// `npm run test:mutation [-- src/domain/retrieval/fusion.ts …]`: changes one expression of the domain rules at a time, by
// Stryker, and expects a unit test to fail for each change. Prints the changes that no test noticed.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, globSync } from 'node:fs';
import { mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { z } from 'zod';
import { installOnce } from './bootstrap/once.mjs';
import { readTestServiceSettings } from './settings.ts';
import { dieWithParent } from './supervisor/parent-death.ts';
import { exitAfter } from './supervisor/run-until-stopped.ts';
import { importsOf } from './test/imports.ts';

const STRYKER = '@stryker-mutator/core@10.1.1';
/** Percentage of the changes that a test has to notice. */
const LEAST_SCORE = 85;
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
  const tests = globSync('test/unit/**/*.test.ts').map((test) => ({
    test,
    direct: importsOf(test),
    all: allImportsOf(test),
  }));
  let [noticed, total] = [0, 0];
  for (const file of files) {
    const ofFile = testsOf(file, tests);
    if (ofFile.length === 0) {
      console.log(`${file}: no unit test imports it`);
      continue;
    }
    const mutants = await mutate(stryker, file, ofFile);
    const survivors = mutants.filter(({ status }) => status === 'Survived' || status === 'NoCoverage');
    noticed += mutants.length - survivors.length;
    total += mutants.length;
    console.log(`${file}: ${mutants.length - survivors.length} of ${mutants.length} changes noticed`);
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

type UnitTest = { test: string; direct: readonly string[]; all: ReadonlySet<string> };

/** The tests that import the file themselves, or, where none does, those that reach it through other files. */
function testsOf(file: string, tests: readonly UnitTest[]): string[] {
  const direct = tests.filter((each) => each.direct.includes(file));
  return (direct.length > 0 ? direct : tests.filter(({ all }) => all.has(file))).map(({ test }) => test);
}

function allImportsOf(file: string, seen = new Set<string>()): ReadonlySet<string> {
  for (const other of importsOf(file)) {
    if (seen.has(other) || !existsSync(other)) continue;
    seen.add(other);
    allImportsOf(other, seen);
  }
  return seen;
}

async function mutate(stryker: string, file: string, tests: readonly string[]): Promise<readonly Mutant[]> {
  const folder = await mkdtemp(join(tmpdir(), 'mutation-'));
  const config = join(folder, 'stryker.json');
  const reportPath = join(folder, 'report.json');
  await writeFile(
    config,
    JSON.stringify({
      mutate: [file],
      mutator: { excludedMutations: EXCLUDED_MUTATIONS },
      testRunner: 'command',
      commandRunner: { command: ['node', 'node_modules/mocha/bin/mocha.js', '--bail', ...tests].join(' ') },
      concurrency: availableParallelism(),
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
  await once(child, 'exit');
  if (!existsSync(reportPath)) throw new Error(`Stryker could not change ${file}: do its tests pass?`);
  const report = reportSchema.parse(JSON.parse(await readFile(reportPath, 'utf8')));
  await rm(folder, { recursive: true, force: true });
  return Object.values(report.files).flatMap(({ mutants }) => mutants.filter(({ status }) => status !== 'Ignored'));
}
