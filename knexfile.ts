import { fileURLToPath } from 'node:url';
import { knexSnakeCaseMappers } from 'objection';
import pg from 'pg';
import {
  type KnexConfigWithMetrics,
  ObservedPostgresClient,
  type StatementObserver,
} from './src/adapters/postgres/observed-statements.ts';

const { builtins } = pg.types;

/** Bigints are sizes and counts, far below 2^53; numerics are prices, which are shown and not added up here. */
const typeParsers: Record<number, (text: string) => unknown> = {
  [builtins.INT8]: Number,
  [builtins.NUMERIC]: Number,
};

function pickTypeParser(oid: number, format: string): (text: string) => unknown {
  return typeParsers[oid] ?? pg.types.getTypeParser(oid, format === 'binary' ? 'binary' : 'text');
}

export type ConnectionOptions = {
  url: string;
  maxConnections: number;
  applicationName?: string | undefined;
  /** How long a statement, and a transaction between two statements, may take. Without it there is no limit. */
  timeoutMs?: number | undefined;
  /** Gets the messages that knex would print. Knex throws its errors as well. */
  onWarning?: ((message: unknown) => void) | undefined;
  /** Called for each statement. Without it nothing is measured. */
  onStatement?: StatementObserver | undefined;
};

/**
 * The only configuration of knex. Columns are snake_case in the database and camelCase in the code; the contents of
 * jsonb columns stay as they are.
 */
export function knexConfig(options: ConnectionOptions): KnexConfigWithMetrics {
  const { timeoutMs, onStatement } = options;
  const log = options.onWarning ?? (() => undefined);
  return {
    client: ObservedPostgresClient,
    onStatement,
    connection: {
      connectionString: options.url,
      ...(options.applicationName !== undefined && { application_name: options.applicationName }),
      ...(timeoutMs !== undefined && {
        statement_timeout: timeoutMs,
        // A process that sleeps in a transaction, or has lost its connection, must not keep its locks.
        idle_in_transaction_session_timeout: timeoutMs,
      }),
      types: { getTypeParser: pickTypeParser },
    },
    pool: { min: 0, max: options.maxConnections },
    acquireConnectionTimeout: 10_000,
    ...knexSnakeCaseMappers(),
    migrations: {
      directory: fileURLToPath(new URL('./migrations', import.meta.url)),
      loadExtensions: ['.ts'],
      extension: 'ts',
    },
    log: { warn: log, error: log, deprecate: log, debug: log },
  };
}

/** For knex's own command line. The product calls `knexConfig` with the settings of `src/config.ts`. */
export default knexConfig({ url: process.env.DATABASE_URL ?? '', maxConnections: 2, onWarning: console.error });
