import { once } from 'node:events';
import { createWriteStream, type WriteStream } from 'node:fs';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { finished } from 'node:stream/promises';
import pg from 'pg';
import type { TableRow } from './dataroom.ts';

type TableFile = { table: string; columns: string[]; path: string; stream: WriteStream };

/** Loads rows by COPY into an empty database on this machine and runs ANALYZE. */
export async function loadRows(databaseUrl: string, rows: Iterable<TableRow>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'bench-load-'));
  // Postgres reads the files and may run as another user.
  await chmod(folder, 0o755);
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    const files = await writeFiles(folder, rows);
    await client.query('begin');
    const indexes = [...(await indexesOf(client, 'document_terms')), ...(await indexesOf(client, 'log_texts'))];
    for (const { drop } of indexes) await client.query(drop);
    await client.query('alter table chats disable trigger user; alter table rounds disable trigger user');
    for (const { table, columns, path } of files) {
      await client.query(`copy ${table} (${columns.join(', ')}) from '${path}'`);
    }
    for (const { make } of indexes) await client.query(make);
    await client.query('alter table chats enable trigger user; alter table rounds enable trigger user');
    await client.query('select renew_chat_logs()');
    await client.query(`
      insert into term_statistics
      select org_id, term, sum(cardinality(postings)) from document_terms group by org_id, term;
      insert into chunk_statistics select org_id, count(*), sum(term_count) from chunks group by org_id`);
    await client.query('commit');
    await client.query('vacuum analyze');
  } finally {
    await client.end();
    await rm(folder, { recursive: true });
  }
}

/** Writes a COPY file for each table and set of columns, in the order of their first rows. */
async function writeFiles(folder: string, rows: Iterable<TableRow>): Promise<TableFile[]> {
  const files = new Map<string, TableFile>();
  for (const { table, row } of rows) {
    const columns = Object.keys(row);
    const key = `${table} ${columns.join()}`;
    let file = files.get(key);
    if (file === undefined) {
      const path = join(folder, `${files.size}.tsv`);
      file = { table, columns, path, stream: createWriteStream(path) };
      files.set(key, file);
    }
    const { stream } = file;
    const hasRoom = stream.write(`${columns.map((column) => field(row[column])).join('\t')}\n`);
    if (!hasRoom) await once(stream, 'drain');
  }
  for (const { stream } of files.values()) await finished(stream.end());
  return [...files.values()];
}

function field(value: unknown): string {
  if (value === null || value === undefined) return '\\N';
  if (Array.isArray(value)) return `{${value.join()}}`;
  const text = typeof value === 'object' ? JSON.stringify(value) : String(value);
  return text.replace(/[\\\t\n\r]/g, (sign) => escapes[sign] ?? sign);
}

const escapes: Record<string, string> = { '\\': '\\\\', '\t': '\\t', '\n': '\\n', '\r': '\\r' };

/**
 * Returns the constraints and indexes of a table: maintaining them for each row is far slower than creating them after
 * the load.
 */
async function indexesOf(client: pg.Client, table: string): Promise<{ drop: string; make: string }[]> {
  const { rows } = await client.query(
    `select 'alter table ' || conrelid::regclass || ' drop constraint ' || conname as drop,
            'alter table ' || conrelid::regclass || ' add constraint ' || conname || ' '
              || pg_get_constraintdef(oid) as make
     from pg_constraint where conrelid = $1::regclass and contype in ('p', 'f')
     union all
     select 'drop index ' || indexrelid::regclass, pg_get_indexdef(indexrelid)
     from pg_index where indrelid = $1::regclass and not indisprimary`,
    [table],
  );
  return rows;
}
