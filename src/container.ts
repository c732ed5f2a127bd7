import pino, { type Logger } from 'pino';
import { createDatabase } from './adapters/postgres/database.ts';
import type { Config } from './config.ts';
import type { Db } from './ports/database.ts';

/** Everything that the API and the workers use, constructed once. Nothing connects before its first use. */
export type Container = {
  config: Config;
  logger: Logger;
  db: Db;
  /** Gives back what was opened, in the reverse order. */
  close(): Promise<void>;
};

/** The only place that constructs things. `role` names the process in logs and in the database's list of sessions. */
export function createContainer(config: Config, role: 'api' | 'worker' | 'test'): Container {
  const logger = pino({
    level: config.server.logLevel,
    base: { role },
    redact: {
      paths: ['req.headers.authorization', 'req.headers.cookie', '*.password', '*.refresh_token', '*.access_token'],
      censor: '[redacted]',
    },
  });
  const db = createDatabase({
    url: config.database.url,
    maxConnections: config.database.poolSize,
    applicationName: role,
  });

  return {
    config,
    logger,
    db,
    close: async () => {
      await db.destroy();
    },
  };
}
