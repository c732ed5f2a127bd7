import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Knex } from 'knex';
import { postgresUrl, preparePostgres } from '../../scripts/launchers/postgres.ts';
import { qdrantFacade, qdrantUrl } from '../../scripts/launchers/qdrant.ts';
import { readTestServiceSettings } from '../../scripts/settings.ts';
import { findFreePorts } from '../../scripts/supervisor/ports.ts';
import { openSupervisor } from '../../scripts/supervisor/supervisor.ts';
import { createDatabase, migrateDatabase } from '../../src/adapters/postgres/database.ts';
import { createQdrantVectorStore } from '../../src/adapters/vectors/qdrant.ts';
import type { VectorStore } from '../../src/ports/vector-store.ts';

export type BenchServices = { db: Knex; qdrant: VectorStore; stop(): Promise<void> };

/** Starts Postgres and the Qdrant facade with the settings of `npm start`, on a temporary data folder. */
export async function startServices(): Promise<BenchServices> {
  const { toolsDir } = readTestServiceSettings(process.env);
  const dataDir = await mkdtemp(join(tmpdir(), 'bench-search-'));
  const [port = 0, qdrantPort = 0] = await findFreePorts(2);
  const supervisor = await openSupervisor({ dataDir, log: (line) => console.error(line) });
  await supervisor.start([
    await preparePostgres({ toolsDir, dataDir, port, password: 'bench', durable: false }),
    qdrantFacade({ toolsDir, dataDir, port: qdrantPort }),
  ]);
  const url = postgresUrl({ port, password: 'bench' });
  await migrateDatabase(url);
  const db = createDatabase({ url, maxConnections: 4, applicationName: 'bench' });
  return {
    db,
    qdrant: createQdrantVectorStore({ url: qdrantUrl(qdrantPort), apiKey: null, collectionPrefix: 'bench' }),
    stop: async () => {
      await db.destroy();
      await supervisor.stop();
      await rm(dataDir, { recursive: true });
    },
  };
}
