import knex from 'knex';
import pg from 'pg';
import type { Db } from '#src/ports/database.ts';
import { lendConnections } from './borrowed-connection.ts';
import { camelCaseKeys, toSnakeCase } from './case-mapper.ts';
import { observeStatements, type StatementObserver } from './observed-statements.ts';

const { builtins } = pg.types;

/** Sizes and counts come as bigint (int8): all of ours stay far below 2^53. Numeric is money: a float will do to show. */
const typeParsers: Record<number, (text: string) => unknown> = {
  [builtins.INT8]: Number,
  [builtins.NUMERIC]: Number,
};

function pickTypeParser(oid: number, format: string): (text: string) => unknown {
  return typeParsers[oid] ?? pg.types.getTypeParser(oid, format === 'binary' ? 'binary' : 'text');
}

/** Opens a pool. Columns are snake_case in the database and camelCase here; contents of jsonb columns stay as they are. */
export function createDatabase(options: {
  url: string;
  maxConnections: number;
  applicationName: string;
  /** Gets what knex would print; what it calls an error is thrown as well, and logged where it is caught. */
  onWarning?: (message: unknown) => void;
  /** Without it nothing is measured. */
  onStatement?: StatementObserver | undefined;
}): Db {
  const log = options.onWarning ?? (() => undefined);
  const db = knex({
    client: 'pg',
    connection: {
      connectionString: options.url,
      application_name: options.applicationName,
      // A query that hangs must not hold a request for ever; the workers' long work is done in batches.
      statement_timeout: 60_000,
      // Nor must a process that sleeps in a transaction, or has lost its line, keep what it holds from others.
      idle_in_transaction_session_timeout: 60_000,
      types: { getTypeParser: pickTypeParser },
    },
    pool: { min: 0, max: options.maxConnections },
    acquireConnectionTimeout: 10_000,
    wrapIdentifier: (value, original) => (value === '*' ? value : original(toSnakeCase(value))),
    postProcessResponse: camelCaseKeys,
    log: { warn: log, error: log, deprecate: log, debug: log },
  });
  if (options.onStatement !== undefined) observeStatements(db, options.onStatement);
  lendConnections(db);
  return db;
}
