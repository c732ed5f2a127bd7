import pg from 'pg';
import type { MaintenanceTurn } from '#src/ports/maintenance-turn.ts';

/** Of the session that has the turn; the number is ours alone in our database. */
const TURN = 7_352;
/** Much less than what proxies leave a silent connection open for. */
const KEEP_ALIVE_MS = 60_000;

/**
 * The turn is a connection's of its own, so that it ends with a process that is killed, and a pool that is closed does
 * not wait for it. Of a machine that is gone the server may know only after hours; with the connection it is lost.
 */
export function createMaintenanceTurn(databaseUrl: string): MaintenanceTurn {
  return async (work) => {
    const client = new pg.Client({
      connectionString: databaseUrl,
      application_name: 'admin',
      keepAlive: true,
      keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
    });
    // The work hears of a lost server by what it asks for itself.
    client.on('error', () => undefined);
    await client.connect();
    try {
      await client.query('set idle_session_timeout = 0');
      const { rowCount } = await client.query('select where pg_try_advisory_lock($1)', [TURN]);
      if (rowCount === 0) throw new Error('Another command is backing up or restoring this database.');
      return await work();
    } finally {
      await client.end().catch(() => undefined);
    }
  };
}
