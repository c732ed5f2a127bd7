import { createHash, generateKeyPairSync, randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { QdrantClient } from '@qdrant/js-client-rest';
import type { Knex } from 'knex';
import pg from 'pg';
import { createDatabase, migrateDatabase } from '#src/adapters/postgres/database.ts';

/** The real services that a run of the tests shares, as `npm test` or `scripts/services.ts` has started them. */
export function testServices() {
  return {
    /** A migrated database that tests share. */
    databaseUrl: required('TEST_DATABASE_URL'),
    /** May create and drop databases. */
    adminDatabaseUrl: required('TEST_ADMIN_DATABASE_URL'),
    /** host:port */
    temporalAddress: required('TEST_TEMPORAL_ADDRESS'),
    /** host:port of a server that runs schedules, too. It may be the same. */
    schedulerAddress: required('TEST_SCHEDULER_ADDRESS'),
    /** An OpenAI-compatible base URL that ends in /v1, of the packaged embedding models. */
    modelBaseUrl: testModelBaseUrl(),
    /** Where the programs and models of the embedded services are. */
    toolsDir: required('TOOLS_DIR'),
  };
}

/** A Qdrant server that tests share, each with a prefix of its own. */
export const testQdrantUrl = (): string => required('TEST_QDRANT_URL');
export const testModelBaseUrl = (): string => required('TEST_MODEL_BASE_URL');

function required(name: string): string {
  const value = process.env[name];
  if (value) return value;
  throw new Error(
    `${name} is not set. Run a test as \`npm test -- <file>\`, or start \`npm run services\` and \`source .data-services/env\`.`,
  );
}

export const requiredSettings = {
  DATABASE_URL: 'postgres://user:secret@localhost/db',
  TEMPORAL_ADDRESS: '127.0.0.1:7233',
  OPENAI_BASE_URL: 'http://127.0.0.1:3010/v1',
  JWT_PRIVATE_KEY: generateKeyPairSync('rsa', {
    modulusLength: 2_048,
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'pem' },
  }).privateKey,
  URL_SIGNING_KEY: 'x'.repeat(32),
  ENCRYPTION_KEYS: `1:${randomBytes(32).toString('base64')}`,
};

/** A migrated database of its own, for tests that must not see each other's rows. */
export const createTestDatabase = () =>
  // Copies files instead of writing each block to the WAL: a third of the CPU time of the default strategy.
  createOwnDatabase(async (admin) => `template ${await ensureTemplate(admin)} strategy file_copy`);

export const createEmptyDatabase = () => createOwnDatabase(async () => '');

async function createOwnDatabase(from: (admin: pg.Client) => Promise<string>) {
  const database = `test_${randomBytes(6).toString('hex')}`;
  await withTestAdmin(async (admin) => admin.query(`create database ${database} ${await from(admin)}`));
  const drop = () => withTestAdmin((admin) => admin.query(`drop database if exists ${database} with (force)`));
  return { url: urlOf(database), drop };
}

/** Copying a migrated database takes a tenth of the time of migrating one. Its name has a hash of the migrations. */
async function ensureTemplate(admin: pg.Client): Promise<string> {
  const template = `template_${migrationsHash()}`;
  await admin.query('select pg_advisory_lock($1)', [7_351]);
  try {
    const { rowCount } = await admin.query('select 1 from pg_database where datname = $1', [template]);
    if (rowCount === 0) {
      await admin.query(`drop database if exists ${template}_new with (force)`);
      await admin.query(`create database ${template}_new`);
      await migrateDatabase(urlOf(`${template}_new`));
      await admin.query(`alter database ${template}_new rename to ${template}`);
    }
    return template;
  } finally {
    await admin.query('select pg_advisory_unlock($1)', [7_351]);
  }
}

function migrationsHash(): string {
  const folder = join(import.meta.dirname, '..', '..', 'migrations');
  const hash = createHash('sha256');
  for (const file of readdirSync(folder).sort()) hash.update(file).update(readFileSync(join(folder, file)));
  return hash.digest('hex').slice(0, 12);
}

/** As the user who may create and drop databases and roles. */
export async function withTestAdmin<T>(work: (admin: pg.Client) => Promise<T>): Promise<T> {
  const admin = new pg.Client({ connectionString: testServices().adminDatabaseUrl });
  await admin.connect();
  return work(admin).finally(() => admin.end());
}

function urlOf(database: string): string {
  const url = new URL(testServices().adminDatabaseUrl);
  url.pathname = `/${database}`;
  return url.href;
}

export type TestDatabase = { db: Knex };

/** For a suite: a migrated database of its own. It is empty until `before` has run. */
export function useTestDatabase(maxConnections = 5): TestDatabase {
  const own: Partial<TestDatabase & { drop(): Promise<void> }> = {};
  before(async () => {
    const { url, drop } = await createTestDatabase();
    Object.assign(own, { db: createDatabase({ url, maxConnections, applicationName: 'test' }), drop });
  });
  after(async () => {
    await own.db?.destroy();
    await own.drop?.();
  });
  return own as TestDatabase;
}

export async function isLockAwaited(db: Knex): Promise<boolean> {
  const { rows } = await db.raw<{ rows: unknown[] }>(
    `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
  );
  return rows.length > 0;
}

/** Tells the collections of a test from all others of the server. */
export const newCollectionPrefix = (): string => `test-${randomBytes(6).toString('hex')}`;

export async function dropCollections({ url, apiKey }: { url: string; apiKey: string | null }, prefix: string) {
  const client = new QdrantClient({ url, ...(apiKey !== null && { apiKey }), checkCompatibility: false });
  const { collections } = await client.getCollections();
  for (const { name } of collections) if (name.startsWith(`${prefix}_`)) await client.deleteCollection(name);
}
