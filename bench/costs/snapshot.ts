import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { Client as Postgres } from 'pg';
import { type MeasuredProduct, processNames } from '../measured-product.ts';

type ProcessName = (typeof processNames)[number];

export type Snapshot = {
  at: Date;
  cpuMs: Record<ProcessName, number>;
  tables: Map<string, { rows: number; bytes: number }>;
  walBytes: number;
  blobBytes: number;
  temporalBytes: number;
  /** All traffic of the loopback interface, also of other programs on the machine. */
  loopbackBytes: number;
};

export async function takeSnapshot(product: MeasuredProduct): Promise<Snapshot> {
  const cpu = await Promise.all(processNames.map(async (name) => [name, await product.cpuMs(name)] as const));
  return {
    at: new Date(),
    cpuMs: Object.fromEntries(cpu) as Snapshot['cpuMs'],
    ...(await readPostgres(product.environment.DATABASE_URL ?? '')),
    blobBytes: await sizeOfFolder(join(product.dataDir, 'blobs')),
    temporalBytes: sizeOfTemporal(join(product.dataDir, 'temporal.db')),
    loopbackBytes: await readLoopback(),
  };
}

async function readPostgres(connectionString: string): Promise<Pick<Snapshot, 'tables' | 'walBytes'>> {
  const client = new Postgres({ connectionString });
  await client.connect();
  try {
    const { rows: wal } = await client.query("select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') as bytes");
    const { rows: named } = await client.query("select tablename from pg_tables where schemaname = 'public'");
    const tables = new Map<string, { rows: number; bytes: number }>();
    for (const { tablename: name } of named) {
      // Counts every row instead of reading estimates, which are outdated until the next ANALYZE.
      const { rows } = await client.query(`select count(*), pg_total_relation_size('${name}') as bytes from ${name}`);
      tables.set(String(name), { rows: Number(rows[0]?.count), bytes: Number(rows[0]?.bytes) });
    }
    return { tables, walBytes: Number(wal[0]?.bytes) };
  } finally {
    await client.end();
  }
}

/** Sizes of the pages in use, which include those that are still in SQLite's write-ahead log. */
function sizeOfTemporal(path: string): number {
  const database = new DatabaseSync(path, { readOnly: true });
  try {
    const read = (name: string) => Number(Object.values(database.prepare(`pragma ${name}`).get() ?? {})[0]);
    return (read('page_count') - read('freelist_count')) * read('page_size');
  } finally {
    database.close();
  }
}

async function sizeOfFolder(path: string): Promise<number> {
  const entries = await readdir(path, { recursive: true, withFileTypes: true }).catch(() => []);
  const files = entries.filter((entry) => entry.isFile());
  const sizes = await Promise.all(files.map(async ({ parentPath, name }) => (await stat(join(parentPath, name))).size));
  return sizes.reduce((sum, size) => sum + size, 0);
}

async function readLoopback(): Promise<number> {
  const devices = await readFile('/proc/net/dev', 'utf8');
  return Number(/^\s*lo:\s*(\d+)/m.exec(devices)?.[1] ?? 0);
}
