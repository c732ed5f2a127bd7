import type { Knex } from 'knex';

/**
 * The relational database, or a transaction in it: a repository takes either and does not care which.
 * Services open transactions with `db.transaction(async (trx) => …)` and make repositories on `trx`.
 */
export type Db = Knex;

/** A query that is not finished yet. */
export type Query = Knex.QueryBuilder;
