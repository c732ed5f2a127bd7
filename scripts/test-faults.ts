// `npm run test:faults [-- --row F2 --seed 1 --fresh]`: every row of docs/reliability.md at full size, on services of
// its own. What has passed is kept, so that a run that was stopped goes on with the rows that are left.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { s3Program } from './s3-program.ts';
import { readTestServiceSettings } from './settings.ts';
import { dieWithParent } from './supervisor/parent-death.ts';
import { exitAfter, runUntilStopped } from './supervisor/run-until-stopped.ts';
import { StartFailure } from './supervisor/start-failure.ts';
import { findTestPorts, startTestS3, startTestServices } from './test/services.ts';

const RESULTS_DIR = '.data-faults';

/** The seeds of a row are run one after the other. */
const ROWS: Record<string, { file: string; seeds: number[] }> = {
  F1: { file: 'f1-crash-points.system-test.ts', seeds: [1, 2, 3] },
  F2: { file: 'f2-workers-killed-in-turn.faults-test.ts', seeds: [1] },
  F3: { file: 'f3-api-killed.system-test.ts', seeds: [1] },
  F4: { file: 'f4-chat-killed.system-test.ts', seeds: [1, 2, 3] },
  F5: { file: 'f5-temporal-down.faults-test.ts', seeds: [1] },
  F6: { file: 'f6-postgres-away.system-test.ts', seeds: [1] },
  F7: { file: 'f7-qdrant-down.system-test.ts', seeds: [1] },
  F8: { file: 'f8-lost-answers.system-test.ts', seeds: [1] },
  F9: { file: 'f9-busy-judge.system-test.ts', seeds: [1] },
  F10: { file: 'f10-broken-chat-model.test.ts', seeds: [1] },
  F11: { file: 'f11-duplicates.test.ts', seeds: [1] },
  F12: { file: 'f12-one-parent.test.ts', seeds: [1] },
  F13: { file: 'f13-refresh-tokens.test.ts', seeds: [1] },
  F14: { file: 'f14-poison.system-test.ts', seeds: [1] },
  F15: { file: 'f15-random-schedules.system-test.ts', seeds: [1, 2, 3] },
  F16: { file: 'f16-ended-consent.system-test.ts', seeds: [1] },
  F18: { file: 'f18-slow-readers.faults-test.ts', seeds: [1] },
  F19: { file: 'f19-rolling-restart-s3.system-test.ts', seeds: [1] },
  F22: { file: 'f22-tenants.system-test.ts', seeds: [1, 2, 3] },
  F24: { file: 'f24-power-cut.faults-test.ts', seeds: [1] },
  F25: { file: 'f25-sleeping-workers.faults-test.ts', seeds: [1] },
  streams: { file: 'chat-streams.system-test.ts', seeds: [1, 2, 3] },
  restart: { file: 'restart-of-streams.faults-test.ts', seeds: [1] },
  'noisy-neighbour': { file: 'noisy-neighbour.faults-test.ts', seeds: [1] },
  readers: { file: 'reingest-under-a-reader.faults-test.ts', seeds: [1] },
  models: { file: 'reembedding-under-a-reader.faults-test.ts', seeds: [1] },
  'outbound-fuzz': { file: 'outbound-fuzz.faults-test.ts', seeds: [1] },
};

type Result = { row: string; seed: number; passed: boolean; seconds: number; note: string };

await exitAfter(async () => {
  const { values } = parseArgs({
    options: { row: { type: 'string' }, seed: { type: 'string' }, fresh: { type: 'boolean', default: false } },
  });
  const { row: wantedRow, seed: wantedSeed } = values;
  if (wantedRow !== undefined && ROWS[wantedRow] === undefined) {
    throw new StartFailure(`There is no row ${wantedRow}: use ${Object.keys(ROWS).join(', ')}.`);
  }
  if (process.env.FAULT_STEPS !== undefined) {
    throw new StartFailure(
      'A row is kept as passed only when it is whole: FAULT_STEPS is for npm test -- test/faults/f1-crash-points.system-test.ts.',
    );
  }
  const runs = Object.entries(ROWS).flatMap(([row, { file, seeds }]) => {
    const wanted = wantedSeed === undefined ? seeds : [Number(wantedSeed)];
    return row === (wantedRow ?? row) ? wanted.map((seed) => ({ row, file, seed })) : [];
  });
  await mkdir(RESULTS_DIR, { recursive: true });
  const resultsPath = join(RESULTS_DIR, 'results.json');
  // Whoever names a row wants it run, whatever it was before.
  const isFresh = values.fresh || wantedRow !== undefined;
  const results: Result[] = existsSync(resultsPath) ? JSON.parse(readFileSync(resultsPath, 'utf8')) : [];
  const isDone = (row: string, seed: number) =>
    results.some((result) => result.row === row && result.seed === seed && result.passed);

  const { toolsDir } = readTestServiceSettings(process.env);
  const dataDir = await mkdtemp(join(tmpdir(), 'agent-conversation-service-faults-'));
  const code = await runUntilStopped({
    dataDir,
    log: (line) => console.error(line),
    work: async (supervisor, ending) => {
      const ports = await findTestPorts();
      const [services] = await startTestServices({ supervisor, toolsDir, dataDir, ports });
      const program = await s3Program(toolsDir, ending);
      const env = { ...services, ...(await startTestS3({ supervisor, program, dataDir, port: ports.s3 })) };
      const done: Result[] = [];
      for (const { row, file, seed } of runs) {
        if (!isFresh && isDone(row, seed)) continue;
        const result = await run(row, file, seed, env, ending);
        done.push(result);
        const others = results.filter((other) => other.row !== row || other.seed !== seed);
        results.splice(0, results.length, ...others, result);
        writeFileSync(resultsPath, JSON.stringify(results, null, 2));
        writeFileSync(join(RESULTS_DIR, 'results.md'), table(results));
      }
      console.log(`\n${table(results)}`);
      // The next run begins anew.
      if (wantedRow === undefined && results.every(({ passed }) => passed)) rmSync(resultsPath);
      return done.every(({ passed }) => passed) ? 0 : 1;
    },
  });
  if (code === 1) console.error(`The services' logs are in ${join(dataDir, 'logs')}.`);
  else await rm(dataDir, { recursive: true, force: true });
  return code;
});

async function run(
  row: string,
  file: string,
  seed: number,
  services: Record<string, string>,
  signal: AbortSignal,
): Promise<Result> {
  const notesPath = join(RESULTS_DIR, 'notes');
  writeFileSync(notesPath, '');
  console.log(`\n${row}, seed ${seed}`);
  const env = { ...process.env, ...services, FAULT_RUN: 'full', FAULT_SEED: String(seed), FAULT_NOTES: notesPath };
  const mocha = [process.execPath, 'node_modules/mocha/bin/mocha.js', join('test/faults', file)] as const;
  const [program, ...args] = dieWithParent(mocha, 'SIGTERM');
  const beganMs = performance.now();
  const child = spawn(program, args, { env, stdio: 'inherit', signal });
  const [code] = await once(child, 'exit');
  const seconds = Math.round((performance.now() - beganMs) / 1_000);
  const note = readFileSync(notesPath, 'utf8').trim().replaceAll('\n', '; ');
  return { row, seed, passed: code === 0, seconds, note };
}

function table(results: readonly Result[]): string {
  const order = Object.keys(ROWS);
  const sorted = [...results].sort((a, b) => order.indexOf(a.row) - order.indexOf(b.row) || a.seed - b.seed);
  const lines = sorted.map(
    ({ row, seed, passed, seconds, note }) => `| ${row} | ${seed} | ${passed ? 'yes' : 'NO'} | ${seconds} | ${note} |`,
  );
  return ['| row | seed | passed | seconds | note |', '|---|---|---|---|---|', ...lines, ''].join('\n');
}
