// `npm test [-- test/api/some.test.ts … --grep "title"]`: runs the tests of a level in several mocha processes, on real
// services started for this run only, in parallel with the static checks. See docs/testing.md.
import { globSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { runChecks } from './checks.ts';
import { promqlProgram } from './promql-program.ts';
import { s3Program } from './s3-program.ts';
import { readTestServiceSettings } from './settings.ts';
import { exitAfter, runUntilStopped } from './supervisor/run-until-stopped.ts';
import { StartFailure } from './supervisor/start-failure.ts';
import type { Supervisor } from './supervisor/supervisor.ts';
import { filesOf, type Level, recordTimings, shardFiles, TEST_LEVELS } from './test/levels.ts';
import { Report, repeatByFile } from './test/report.ts';
import { findTestPorts, startTestS3, startTestServices } from './test/services.ts';
import { runShard } from './test/shard.ts';
import { measureUsage } from './test/usage.ts';

const RESULTS = '.data-test/results.jsonl';
/** Only system tests may use the S3 server and the PromQL engine, which are built with Go. */
const NEEDS_GO = /system-test/;

const { values: options, positionals: files } = parseArgs({
  allowPositionals: true,
  options: {
    level: { type: 'string', default: 'everyday' },
    grep: { type: 'string' },
    seed: { type: 'string' },
    results: { type: 'string', default: RESULTS },
    record: { type: 'boolean', default: false },
  },
});

await exitAfter(async () => {
  const level = options.level as Level;
  if (!(level in TEST_LEVELS))
    throw new StartFailure(`There is no level ${level}: use ${Object.keys(TEST_LEVELS).join(', ')}.`);
  for (const file of files) if (globSync(file).length === 0) throw new StartFailure(`There is no file ${file}.`);
  const settings = files.length > 0 ? { ...TEST_LEVELS[level], shards: 1, checks: false } : TEST_LEVELS[level];
  const shards = files.length > 0 ? [files] : shardFiles(filesOf(level), settings.shards);
  const report = new Report({
    resultsPath: options.results,
    failOnSkip: process.env.CI === 'true' ? 'unlisted' : 'none',
    repeatCommand: (failed) => repeatByFile(failed, options.seed),
  });
  const dataDir = await mkdtemp(join(tmpdir(), 'agent-conversation-service-test-'));
  const started = performance.now();
  const code = await runUntilStopped({
    dataDir,
    log: (line) => console.error(line),
    work: async (supervisor, ending) => {
      const usage = measureUsage();
      const runTests = async () => {
        const services = settings.services ? await startServices({ supervisor, dataDir, shards, ending }) : [];
        await Promise.all(shards.map((shard, index) => run(shard, services[index] ?? {}, report, ending)));
      };
      const [checks] = await Promise.all([settings.checks ? runChecks(ending) : null, runTests()]);
      if (checks) report.addChecks(checks);
      const isWhole = files.length === 0 && options.grep === undefined;
      if (isWhole && (level === 'everyday' || level === 'system')) report.addStatusCoverage(level);
      if (options.record) recordTimings(report.fileSeconds);
      const seconds = (performance.now() - started) / 1_000;
      return report.end({
        usage: usage.stop(),
        seconds,
        notRun: files.length > 0 ? [] : leftTo(level),
        logsDir: settings.services ? join(dataDir, 'logs') : null,
      });
    },
  });
  if (code !== 1) await rm(dataDir, { recursive: true, force: true });
  return code;
});

async function startServices(started: {
  supervisor: Supervisor;
  dataDir: string;
  shards: readonly (readonly string[])[];
  ending: AbortSignal;
}): Promise<Record<string, string>[]> {
  const { supervisor, dataDir, shards, ending } = started;
  const { toolsDir } = readTestServiceSettings(process.env);
  const needsGo = shards.flat().some((file) => NEEDS_GO.test(file));
  // The everyday tests create hundreds of namespaces, and few of them need schedules that run.
  const hasScheduler = !shards.flat().some((file) => /\.(?:system|faults)-test\.ts$/.test(file));
  const ports = await findTestPorts({ shards: shards.length, hasScheduler });
  const [environments, s3, promql] = await Promise.all([
    startTestServices({ supervisor, toolsDir, dataDir, ports }),
    needsGo ? s3Program(toolsDir, ending) : undefined,
    needsGo ? promqlProgram(toolsDir, ending) : null,
  ]);
  const built = {
    ...(await startTestS3({ supervisor, program: s3, dataDir, port: ports.s3 })),
    ...(promql !== null && { TEST_PROMQL_PROGRAM: promql }),
  };
  return environments.map((environment) => ({ ...environment, ...built }));
}

async function run(
  shard: readonly string[],
  services: Record<string, string>,
  report: Report,
  signal: AbortSignal,
): Promise<void> {
  const failure = await runShard({
    files: shard,
    mochaArgs: options.grep === undefined ? [] : ['--grep', options.grep],
    env: {
      // Removes a variable that a shell may have from `npm run services`.
      TEST_S3_URL: undefined,
      // TEMPORAL_DEBUG runs workflow code on the main thread: a thread per worker costs 0.3 CPU-seconds and 55 MB to
      // start, and its deadlock detector depends on wall-clock time. Processes that tests start keep their threads.
      TEMPORAL_DEBUG: '1',
      ...services,
      ...(options.seed !== undefined && { TEST_SEED: options.seed }),
    },
    signal,
    onMessage: (message) => report.add(message),
  });
  if (failure !== null) report.addFailure(failure);
}

function leftTo(level: Level): string[] {
  const system = 'real processes, browser, S3, cluster, dashboard, deployment: npm run test:system';
  const faults = 'every fault drill at full size: npm run test:faults';
  const others = ['the fetched models: npm run test:models', 'every operation by its schema: npm run test:schema'];
  if (level === 'unit') return ['everything that needs a service: npm test', system, faults, ...others];
  return level === 'everyday' ? [system, faults, ...others] : [faults, ...others];
}
