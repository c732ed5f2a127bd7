import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { DATABASE } from '../application-environment.ts';
import { ensureDatabase, postgresUrl, preparePostgres } from '../launchers/postgres.ts';
import { qdrantFacade } from '../launchers/qdrant.ts';
import { openSecrets } from '../secrets.ts';
import { readStartSettings } from '../settings.ts';
import type { ChildSpec } from '../supervisor/child-spec.ts';
import { runUntilStopped } from '../supervisor/run-until-stopped.ts';

/**
 * Runs work that needs the stores while no API or worker uses them. Starts embedded stores for this time; external stores
 * must be running.
 * @throws StartFailure if `npm start` is running
 */
export async function withEmbeddedStores(
  env: Record<string, string | undefined>,
  note: (line: string) => void,
  work: () => Promise<boolean>,
): Promise<boolean> {
  const dataDir = resolve(env.DATA_DIR || '.data');
  if (!existsSync(join(dataDir, 'secrets'))) return work();
  const { toolsDir, postgres, qdrant } = readStartSettings(env);
  const { postgresPassword: password } = await openSecrets(dataDir, env);
  const code = await runUntilStopped({
    dataDir,
    log: note,
    work: async (supervisor) => {
      const stores: ChildSpec[] = [];
      if (postgres.kind === 'embedded') {
        stores.push(
          await preparePostgres({ toolsDir, dataDir, port: postgres.port, password, durable: true, say: note }),
        );
      }
      if (qdrant?.kind === 'embedded') {
        stores.push(qdrantFacade({ toolsDir, dataDir, port: qdrant.port, apiKey: qdrant.apiKey }));
      }
      await supervisor.start(stores);
      if (postgres.kind === 'embedded') await ensureDatabase(postgresUrl({ port: postgres.port, password }), DATABASE);
      return (await work()) ? 0 : 1;
    },
  });
  return code === 0;
}
