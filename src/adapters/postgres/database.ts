import type { Knex } from 'knex';
import knex from 'knex';
import { type ConnectionOptions, knexConfig } from '../../../knexfile.ts';

/** A query that hangs must not hold a request for ever; the workers' long work is done in batches. */
const TIMEOUT_MS = 60_000;

/** Opens a pool. */
export function createDatabase(options: Omit<ConnectionOptions, 'timeoutMs'>): Knex {
  return knex(knexConfig({ ...options, timeoutMs: TIMEOUT_MS }));
}
