import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { migrate } from '#src/adapters/postgres/migrate.ts';
import { modelServer, modelServerUrl } from '../launchers/model-server.ts';
import { ensureDatabase, postgresUrl, preparePostgres } from '../launchers/postgres.ts';
import { qdrantFacade, qdrantUrl } from '../launchers/qdrant.ts';
import { s3Gateway, s3GatewayUrl } from '../launchers/s3-gateway.ts';
import { temporalServer } from '../launchers/temporal.ts';
import { findFreePorts } from '../supervisor/ports.ts';
import type { Supervisor } from '../supervisor/supervisor.ts';

// Data of a test is thrown away, so that its secrets protect nothing.
const PASSWORD = 'test';
const DATABASE = 'test';
/** Three Temporal servers are beside each other: Go collects garbage at 1.5 times what is in use, instead of twice. */
const SMALL_HEAP = { GOGC: '50' };

type Environment = Record<string, string>;

type TemporalPorts = { port: number; uiPort: number };

export type TestPorts = {
  postgres: number;
  /** One Temporal server for each shard: what one shard keeps busy does not slow down the others. */
  temporals: [TemporalPorts, ...TemporalPorts[]];
  modelServer: number;
  qdrant: number;
  s3: number;
};

/** One for each service, free at this moment. */
export async function findTestPorts(shards = 1): Promise<TestPorts> {
  const free = await findFreePorts(4 + 2 * shards);
  const next = () => free.pop() as number;
  const temporal = () => ({ port: next(), uiPort: next() });
  return {
    postgres: next(),
    modelServer: next(),
    qdrant: next(),
    s3: next(),
    temporals: [temporal(), ...Array.from({ length: shards - 1 }, temporal)],
  };
}

/**
 * Starts the real services that tests speak to, with a migrated database.
 * @returns for each Temporal server the environment in which test/support/services.ts finds it and the other services
 */
export async function startTestServices(options: {
  supervisor: Supervisor;
  toolsDir: string;
  dataDir: string;
  ports: TestPorts;
}): Promise<[Environment, ...Environment[]]> {
  const { supervisor, toolsDir, dataDir, ports } = options;
  const database = { port: ports.postgres, password: PASSWORD };
  const temporalDirs = ports.temporals.map((_, index) => join(dataDir, `temporal-${index + 1}`));
  await Promise.all(temporalDirs.map((folder) => mkdir(folder, { recursive: true })));
  await supervisor.start([
    await preparePostgres({ toolsDir, dataDir, ...database, durable: false, autovacuum: false }),
    ...ports.temporals.map((temporal, index) => {
      const server = temporalServer({ toolsDir, dataDir: temporalDirs[index] ?? dataDir, ...temporal });
      return { ...server, name: `temporal-${index + 1}`, env: { ...server.env, ...SMALL_HEAP } };
    }),
    modelServer({ toolsDir, port: ports.modelServer }),
    qdrantFacade({ toolsDir, dataDir, port: ports.qdrant }),
  ]);
  const adminUrl = postgresUrl(database);
  const databaseUrl = postgresUrl({ ...database, database: DATABASE });
  await ensureDatabase(adminUrl, DATABASE);
  await migrate(databaseUrl);
  const environment = ({ port }: TemporalPorts) => ({
    TOOLS_DIR: toolsDir,
    TEST_ADMIN_DATABASE_URL: adminUrl,
    TEST_DATABASE_URL: databaseUrl,
    TEST_TEMPORAL_ADDRESS: `127.0.0.1:${port}`,
    TEST_MODEL_BASE_URL: modelServerUrl(ports.modelServer),
    TEST_QDRANT_URL: qdrantUrl(ports.qdrant),
  });
  const [first, ...others] = ports.temporals;
  return [environment(first), ...others.map(environment)];
}

/**
 * Starts the S3 server, which may have to be built before.
 * @param options.program null where it cannot be built, undefined where nobody has asked for it
 * @returns the environment in which test/support/s3.ts finds it, or that there is none
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
