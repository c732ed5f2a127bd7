declare module 'knex/lib/dialects/postgres/index.js' {
  import type { Knex } from 'knex';

  /** The class behind `client: 'pg'`; documented by knex for custom clients, but without types. */
  export default class PostgresClient extends Knex.Client {
    _query(connection: unknown, statement: { sql: string }): Promise<unknown>;
    processResponse(statement: { response: unknown }, runner: unknown): unknown;
  }
}
