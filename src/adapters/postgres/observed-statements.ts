import type { Knex } from 'knex';
import PostgresClient from 'knex/lib/dialects/postgres/index.js';
import { isDatabaseOutage } from './errors.ts';

/** Called when an SQL statement is sent. The returned function is called when it ends, with a label if it failed. */
export type StatementObserver = (sql: string) => (failure: string | undefined) => void;

type Runner = { builder: { queryContext(): { keepsResult?: boolean } | undefined } };

export type KnexConfigWithMetrics = Knex.Config & { onStatement?: StatementObserver | undefined };

/**
 * Knex's Postgres client with a hook for statements, because knex's own events do not report when begin, commit and
 * rollback end.
 */
export class ObservedPostgresClient extends PostgresClient {
  declare config: KnexConfigWithMetrics;

  override async _query(connection: unknown, statement: { sql: string }): Promise<unknown> {
    const ended = this.config.onStatement?.(statement.sql);
    if (ended === undefined) return super._query(connection, statement);
    try {
      const answered = await super._query(connection, statement);
      ended(undefined);
      return answered;
    } catch (error) {
      ended(failureOf(error));
      throw error;
    }
  }

  /** If `keepsResult` is set, returns the whole result: `queryRows` in `shapes.ts` needs its fields, which knex drops. */
  override processResponse(statement: { response: unknown }, runner: Runner): unknown {
    if (runner.builder.queryContext()?.keepsResult === true) return statement.response;
    return super.processResponse(statement, runner);
  }
}

/** Label of a failed statement: `outage`, or the class of the SQLSTATE, so that the number of values is bounded. */
function failureOf(error: unknown): string {
  if (isDatabaseOutage(error)) return 'outage';
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) ? `sqlstate_${code.slice(0, 2)}` : 'error';
}
