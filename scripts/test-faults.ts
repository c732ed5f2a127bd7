// `npm run test:faults [-- --row F2 --seed 1 --fresh]`: runs every row of docs/reliability.md at full size on its own
// services. Passed rows are stored, so that a run that was stopped continues with the remaining ones.
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { s3Program } from './s3-program.ts';
import { readTestServiceSettings } from './settings.ts';
import { exitAfter, runUntilStopped } from './supervisor/run-until-stopped.ts';
import { StartFailure } from './supervisor/start-failure.ts';
import { codeDigest } from './test/code-digest.ts';
import { FAULT_ROWS } from './test/fault-rows.ts';
import { Report } from './test/report.ts';
import { findTestPorts, startTestS3, startTestServices } from './test/services.ts';
import { runShard } from './test/shard.ts';

const RESULTS_DIR = '.data-faults';

/** @property code digest of the code and the tests that the row ran with; a result with null is never reused */
type Result = { row: string; seed: number; code: string | null; passed: boolean; seconds: number; note: string };

await exitAfter(async () => {
  const { values } = parseArgs({
    options: { row: { type: 'string' }, seed: { type: 'string' }, fresh: { type: 'boolean', default: false } },
  });
  const { row: wantedRow, seed: wantedSeed } = values;
  if (wantedRow !== undefined && FAULT_ROWS[wantedRow] === undefined) {
    throw new StartFailure(`There is no row ${wantedRow}: use ${Object.keys(FAULT_ROWS).join(', ')}.`);
  }
  if (process.env.FAULT_STEPS !== undefined) {
    throw new StartFailure(
      'FAULT_STEPS must not be set, because a row counts as passed only with all steps. Use it with npm test -- test/faults/f1-crash-points.system-test.ts.',
    );
  }
  const runs = Object.entries(FAULT_ROWS).flatMap(([row, { file, title, seeds }]) => {
    const wanted = wantedSeed === undefined ? seeds : [Number(wantedSeed)];
    return row === (wantedRow ?? row) ? wanted.map((seed) => ({ row, file, title, seed })) : [];
  });
  await mkdir(RESULTS_DIR, { recursive: true });
  const resultsPath = join(RESULTS_DIR, 'results.json');
  // A row that `--row` names runs again even if it has passed before.
  const isFresh = values.fresh || wantedRow !== undefined;
  const code = codeDigest();
  const kept: Result[] = existsSync(resultsPath) ? JSON.parse(readFileSync(resultsPath, 'utf8')) : [];
  const results = kept.filter((result) => code !== null && result.code === code);
  const isDone = (row: string, seed: number) =>
    results.some((result) => result.row === row && result.seed === seed && result.passed);

  const { toolsDir } = readTestServiceSettings(process.env);
  const dataDir = await mkdtemp(join(tmpdir(), 'agent-conversation-service-faults-'));
  const exitCode = await runUntilStopped({
    dataDir,
    log: (line) => console.error(line),
    work: async (supervisor, ending) => {
      const ports = await findTestPorts();
      const [services] = await startTestServices({ supervisor, toolsDir, dataDir, ports });
      const program = await s3Program(toolsDir, ending);
      const env = { ...services, ...(await startTestS3({ supervisor, program, dataDir, port: ports.s3 })) };
      const done: Result[] = [];
      for (const { row, seed, ...tests } of runs) {
        if (!isFresh && isDone(row, seed)) continue;
        const result = { row, seed, code, ...(await run(row, tests, seed, env, ending)) };
        done.push(result);
        const others = results.filter((other) => other.row !== row || other.seed !== seed);
        results.splice(0, results.length, ...others, result);
        writeFileSync(resultsPath, JSON.stringify(results, null, 2));
        writeFileSync(join(RESULTS_DIR, 'results.md'), table(results));
      }
      console.log(`\n${table(results)}`);
      if (wantedRow === undefined && results.every(({ passed }) => passed)) rmSync(resultsPath, { force: true });
      const failed = done.filter(({ passed }) => !passed).length;
      if (failed > 0) console.log(`The services' logs are in ${join(dataDir, 'logs')}.`);
      console.log(`${done.length - failed} passed, ${failed} failed`);
      return failed === 0 ? 0 : 1;
    },
  });
  if (exitCode !== 1) await rm(dataDir, { recursive: true, force: true });
  return exitCode;
});

/** A row passes only if all of its tests passed: a skipped test proves nothing. */
async function run(
  row: string,
  { file, title }: { file: string; title: string | undefined },
  seed: number,
  services: Record<string, string>,
  signal: AbortSignal,
): Promise<Pick<Result, 'passed' | 'seconds' | 'note'>> {
  const notesPath = join(RESULTS_DIR, 'notes');
  writeFileSync(notesPath, '');
  console.log(`\n${row}, seed ${seed}`);
  const report = new Report({
    resultsPath: join(RESULTS_DIR, `${row}-${seed}.jsonl`),
    failOnSkip: 'any',
    repeatCommand: () => `npm run test:faults -- --row ${row} --seed ${seed}`,
  });
  const beganMs = performance.now();
  const failure = await runShard({
    files: [join('test/faults', file)],
    mochaArgs: title === undefined ? [] : ['--grep', title],
    env: { ...services, FAULT_RUN: 'full', FAULT_SEED: String(seed), FAULT_NOTES: notesPath },
    signal,
    onMessage: (message) => report.add(message),
  });
  if (failure !== null) report.addFailure(failure);
  const seconds = (performance.now() - beganMs) / 1_000;
  const passed = report.end({ usage: [], seconds, notRun: [], logsDir: null }) === 0;
  const note = readFileSync(notesPath, 'utf8').trim().replaceAll('\n', '; ');
  return { passed, seconds: Math.round(seconds), note };
}

function table(results: readonly Result[]): string {
  const order = Object.keys(FAULT_ROWS);
  const sorted = [...results].sort((a, b) => order.indexOf(a.row) - order.indexOf(b.row) || a.seed - b.seed);
  const lines = sorted.map(
    ({ row, seed, passed, seconds, note }) => `| ${row} | ${seed} | ${passed ? 'yes' : 'NO'} | ${seconds} | ${note} |`,
  );
  return ['| row | seed | passed | seconds | note |', '|---|---|---|---|---|', ...lines, ''].join('\n');
}
