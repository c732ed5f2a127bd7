import { migrate } from '#src/adapters/postgres/migrate.ts';
import { modelServer, modelServerUrl } from './launchers/model-server.ts';
import { ensureDatabase, postgresUrl, preparePostgres } from './launchers/postgres.ts';
import { qdrantFacade, qdrantUrl } from './launchers/qdrant.ts';
import { s3Gateway, s3GatewayUrl } from './launchers/s3-gateway.ts';
import { temporalServer } from './launchers/temporal.ts';
import { findFreePorts } from './supervisor/ports.ts';
import type { Supervisor } from './supervisor/supervisor.ts';

// Data of a test is thrown away, so that its secrets protect nothing.
const PASSWORD = 'test';
const DATABASE = 'test';

export type TestPorts = {
  postgres: number;
  temporal: number;
  temporalUi: number;
  modelServer: number;
  qdrant: number;
  s3: number;
};

/** One for each service, free at this moment. */
export async function findTestPorts(): Promise<TestPorts> {
  const [postgres = 0, temporal = 0, temporalUi = 0, modelServer = 0, qdrant = 0, s3 = 0] = await findFreePorts(6);
  return { postgres, temporal, temporalUi, modelServer, qdrant, s3 };
}

/**
 * Starts the real services that tests speak to, with a migrated database.
 * @returns the environment in which test/support/services.ts finds them
 */
export async function startTestServices(options: {
  supervisor: Supervisor;
  toolsDir: string;
  dataDir: string;
  ports: TestPorts;
}): Promise<Record<string, string>> {
  const { supervisor, toolsDir, dataDir, ports } = options;
  const database = { port: ports.postgres, password: PASSWORD };
  await supervisor.start([
    await preparePostgres({ toolsDir, dataDir, ...database, durable: false }),
    temporalServer({ toolsDir, dataDir, port: ports.temporal, uiPort: ports.temporalUi }),
    modelServer({ toolsDir, port: ports.modelServer }),
    qdrantFacade({ toolsDir, dataDir, port: ports.qdrant }),
  ]);
  const adminUrl = postgresUrl(database);
  const databaseUrl = postgresUrl({ ...database, database: DATABASE });
  await ensureDatabase(adminUrl, DATABASE);
  await migrate(databaseUrl);
  return {
    TOOLS_DIR: toolsDir,
    TEST_ADMIN_DATABASE_URL: adminUrl,
    TEST_DATABASE_URL: databaseUrl,
    TEST_TEMPORAL_ADDRESS: `127.0.0.1:${ports.temporal}`,
    TEST_MODEL_BASE_URL: modelServerUrl(ports.modelServer),
    TEST_QDRANT_URL: qdrantUrl(ports.qdrant),
  };
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
