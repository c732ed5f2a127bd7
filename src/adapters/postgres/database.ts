import type { Knex } from 'knex';
import knex from 'knex';
import { type ConnectionOptions, knexConfig } from '../../../knexfile.ts';

/** Statement timeout. Work that takes longer is done in batches. */
const TIMEOUT_MS = 60_000;

export function createDatabase(options: Omit<ConnectionOptions, 'timeoutMs'>): Knex {
  return knex(knexConfig({ ...options, timeoutMs: TIMEOUT_MS }));
}
