import { createHash, randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { migrateDatabase } from '#src/adapters/postgres/database.ts';

/** The real services that a run of the tests shares. */
export type TestServices = {
  /** A migrated database that tests share. */
  databaseUrl: string;
  /** May create and drop databases. */
  adminDatabaseUrl: string;
  /** host:port */
  temporalAddress: string;
  /** host:port of a server that runs schedules, too. It may be the same. */
  schedulerAddress: string;
  /** An OpenAI-compatible base URL that ends in /v1. */
  modelBaseUrl: string;
  /** Where the programs and models of the embedded services are. */
  toolsDir: string;
};

/** The services that `npm test`, or `scripts/services.ts`, has started; throws where neither has. */
export function testServices(): TestServices {
  return {
    databaseUrl: required('TEST_DATABASE_URL'),
    adminDatabaseUrl: required('TEST_ADMIN_DATABASE_URL'),
    temporalAddress: required('TEST_TEMPORAL_ADDRESS'),
    schedulerAddress: required('TEST_SCHEDULER_ADDRESS'),
    modelBaseUrl: testModelBaseUrl(),
    toolsDir: required('TOOLS_DIR'),
  };
}

/** A Qdrant server that tests share, each with a prefix of its own. */
export function testQdrantUrl(): string {
  return required('TEST_QDRANT_URL');
}

/** An OpenAI-compatible base URL that ends in /v1, of the packaged embedding models. */
export function testModelBaseUrl(): string {
  return required('TEST_MODEL_BASE_URL');
}

function required(name: string): string {
  const value = process.env[name];
  if (value) return value;
  throw new Error(
    `${name} is not set: this needs the services of the tests. Run a test as \`npm test -- <file>\`; for all else start \`npm run services\` and \`source .data-services/env\`.`,
  );
}

/** A migrated database of its own, for tests that must not see each other's rows. */
export async function createTestDatabase(): Promise<{ url: string; drop: () => Promise<void> }> {
  const database = `test_${randomBytes(6).toString('hex')}`;
  await withTestAdmin(async (admin) => {
    const template = await ensureTemplate(admin);
    // Copies files instead of writing each block to the WAL: a third of the CPU time of the default strategy.
    await admin.query(`create database ${database} template ${template} strategy file_copy`);
  });
  return {
    url: urlOf(database),
    drop: () => dropDatabase(database),
  };
}

/** One without tables. */
export async function createEmptyDatabase(): Promise<{ url: string; drop: () => Promise<void> }> {
  const database = `test_${randomBytes(6).toString('hex')}`;
  await withTestAdmin((admin) => admin.query(`create database ${database}`));
  return { url: urlOf(database), drop: () => dropDatabase(database) };
}

async function dropDatabase(database: string): Promise<void> {
  await withTestAdmin((admin) => admin.query(`drop database if exists ${database} with (force)`));
}

/** Copying a migrated database takes a tenth of the time of migrating one; its name follows the migrations. */
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
  try {
    return await work(admin);
  } finally {
    await admin.end();
  }
}

function urlOf(database: string): string {
  const url = new URL(testServices().adminDatabaseUrl);
  url.pathname = `/${database}`;
  return url.href;
}
