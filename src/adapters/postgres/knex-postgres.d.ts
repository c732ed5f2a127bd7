declare module 'knex/lib/dialects/postgres/index.js' {
  import type { Knex } from 'knex';

  /** The class behind `client: 'pg'`, which knex's documentation names for custom clients and does not type. */
  export default class PostgresClient extends Knex.Client {
    _query(connection: unknown, statement: { sql: string }): Promise<unknown>;
    processResponse(statement: { response: unknown }, runner: unknown): unknown;
  }
}
