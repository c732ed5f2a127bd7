import pg from 'pg';
import type { MaintenanceLock } from '#src/ports/backup.ts';

/** Key of the advisory lock; not used elsewhere in this database. */
const LOCK = 7_352;
/** Shorter than the idle timeout of proxies. */
const KEEP_ALIVE_MS = 60_000;

/**
 * Holds the lock on a connection of its own, so that Postgres releases it when the process is killed and closing the pool
 * does not wait for it. Postgres may notice only after hours that the whole machine is gone.
 */
export function createMaintenanceLock(databaseUrl: string): MaintenanceLock {
  return async (work) => {
    const client = new pg.Client({
      connectionString: databaseUrl,
      application_name: 'admin',
      keepAlive: true,
      keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
    });
    // If the server is lost, the queries of `work` fail themselves.
    client.on('error', () => undefined);
    await client.connect();
    try {
      await client.query('set idle_session_timeout = 0');
      const { rowCount } = await client.query('select where pg_try_advisory_lock($1)', [LOCK]);
      if (rowCount === 0) throw new Error('Another command is backing up or restoring this database.');
      return await work();
    } finally {
      await client.end().catch(() => undefined);
    }
  };
}
