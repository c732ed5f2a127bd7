import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { migrateDatabase } from '#src/adapters/postgres/database.ts';
import { modelServer, modelServerUrl } from '../launchers/model-server.ts';
import { ensureDatabase, postgresUrl, preparePostgres } from '../launchers/postgres.ts';
import { qdrantFacade, qdrantUrl } from '../launchers/qdrant.ts';
import { s3Gateway, s3GatewayUrl } from '../launchers/s3-gateway.ts';
import { temporalServer } from '../launchers/temporal.ts';
import type { ChildSpec } from '../supervisor/child-spec.ts';
import { findFreePorts } from '../supervisor/ports.ts';
import type { Supervisor } from '../supervisor/supervisor.ts';

// Test data is deleted, so the password protects nothing.
const PASSWORD = 'test';
const DATABASE = 'test';
/**
 * Four Temporal servers run at once: GOGC=15 lets Go's heap grow by 15 % between garbage collections instead of
 * doubling.
 */
const SMALL_HEAP = { GOGC: '15' };
// Keeps Temporal's caches small and short-lived, because a test's runs and task queues are not used after it.
const SHORT_MEMORY = [
  ...['--dynamic-config-value', 'history.hostLevelCacheMaxSize=200'],
  ...['--dynamic-config-value', 'matching.maxTaskQueueIdleTime="1m"'],
];

type Environment = Record<string, string>;

type TemporalPorts = { port: number; uiPort: number };

export type TestPorts = {
  postgres: number;
  /** Each shard has its own Temporal server, so that a busy shard does not slow down the others. */
  temporals: [TemporalPorts, ...TemporalPorts[]];
  /** Ports of an additional Temporal server that runs the schedules; null if each server runs its own. */
  scheduler: TemporalPorts | null;
  modelServer: number;
  qdrant: number;
  s3: number;
};

export async function findTestPorts({ shards = 1, hasScheduler = false } = {}): Promise<TestPorts> {
  const free = await findFreePorts(6 + 2 * shards);
  const next = () => free.pop() as number;
  const temporal = () => ({ port: next(), uiPort: next() });
  return {
    postgres: next(),
    modelServer: next(),
    qdrant: next(),
    s3: next(),
    temporals: [temporal(), ...Array.from({ length: shards - 1 }, temporal)],
    scheduler: hasScheduler ? temporal() : null,
  };
}

/**
 * Starts the real services of the tests and migrates the database.
 * @returns the environment for each Temporal server, in which test/support/services.ts finds it and the other services
 */
export async function startTestServices(options: {
  supervisor: Supervisor;
  toolsDir: string;
  dataDir: string;
  ports: TestPorts;
}): Promise<[Environment, ...Environment[]]> {
  const { supervisor, toolsDir, dataDir, ports } = options;
  const database = { port: ports.postgres, password: PASSWORD };
  const temporal = async (name: string, server: TemporalPorts, hasSchedules: boolean): Promise<ChildSpec> => {
    const folder = join(dataDir, name);
    await mkdir(folder, { recursive: true });
    const child = temporalServer({ toolsDir, dataDir: folder, ...server, hasSchedules });
    const [program, ...args] = child.command;
    return { ...child, name, command: [program, ...args, ...SHORT_MEMORY], env: { ...child.env, ...SMALL_HEAP } };
  };
  const { temporals, scheduler } = ports;
  await supervisor.start([
    await preparePostgres({ toolsDir, dataDir, ...database, durable: false, autovacuum: false }),
    ...(await Promise.all(
      temporals.map((server, index) => temporal(`temporal-${index + 1}`, server, scheduler === null)),
    )),
    ...(scheduler === null ? [] : [await temporal('temporal-schedules', scheduler, true)]),
    modelServer({ toolsDir, port: ports.modelServer }),
    qdrantFacade({ toolsDir, dataDir, port: ports.qdrant }),
  ]);
  const adminUrl = postgresUrl(database);
  const databaseUrl = postgresUrl({ ...database, database: DATABASE });
  await ensureDatabase(adminUrl, DATABASE);
  await migrateDatabase(databaseUrl);
  const environment = ({ port }: TemporalPorts) => ({
    TOOLS_DIR: toolsDir,
    TEST_ADMIN_DATABASE_URL: adminUrl,
    TEST_DATABASE_URL: databaseUrl,
    TEST_TEMPORAL_ADDRESS: `127.0.0.1:${port}`,
    TEST_SCHEDULER_ADDRESS: `127.0.0.1:${scheduler?.port ?? port}`,
    TEST_MODEL_BASE_URL: modelServerUrl(ports.modelServer),
    TEST_QDRANT_URL: qdrantUrl(ports.qdrant),
  });
  const [first, ...others] = temporals;
  return [environment(first), ...others.map(environment)];
}

/**
 * Starts the S3 server of the tests.
 * @param options.program path of the server; null if it cannot be built, undefined if no test needs it
 * @returns the environment in which test/support/s3.ts finds the server; an empty TEST_S3_URL means that there is none
 */
export async function startTestS3(options: {
  supervisor: Supervisor;
  program: string | null | undefined;
  dataDir: string;
  port: number;
}): Promise<Record<string, string>> {
  const { supervisor, program, dataDir, port } = options;
  if (program === undefined) return {};
  if (program === null) return { TEST_S3_URL: '' };
  await supervisor.start([await s3Gateway({ program, dataDir, port })]);
  return { TEST_S3_URL: s3GatewayUrl(port) };
}
