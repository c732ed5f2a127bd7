import type { Knex } from 'knex';
import PostgresClient from 'knex/lib/dialects/postgres/index.js';
import { isOutage } from './errors.ts';

/** Called when a statement is sent. The function that it returns is called at the end, with a name for the failure. */
export type StatementObserver = (sql: string) => (failure: string | undefined) => void;

type Runner = { builder: { queryContext(): { keepsResult?: boolean } | undefined } };

/** `onStatement` is ours: without it nothing is measured. */
export type ObservedConfig = Knex.Config & { onStatement?: StatementObserver | undefined };

/**
 * Knex's client for Postgres, which tells `onStatement` of its configuration about each statement. Knex's events are no
 * substitute: it emits `query` for begin, commit and rollback, but never `query-response`.
 */
export class ObservedPostgres extends PostgresClient {
  declare config: ObservedConfig;

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

  /** Knex keeps the rows of a builder's result only. `rows` of `shapes.ts` needs its fields, too. */
  override processResponse(statement: { response: unknown }, runner: Runner): unknown {
    if (runner.builder.queryContext()?.keepsResult === true) return statement.response;
    return super.processResponse(statement, runner);
  }
}

/** The class of the SQLSTATE: few values, which tell the cause. */
function failureOf(error: unknown): string {
  if (isOutage(error)) return 'outage';
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) ? `sqlstate_${code.slice(0, 2)}` : 'error';
}
