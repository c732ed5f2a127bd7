import { readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Container } from '#src/container.ts';
import { collect } from './collect.ts';

/** A secret, by the name under which it is told where one was found. */
export type Secret = { name: string; value: string };
/** Something that others read, as the text of all that is in it. */
export type Place = { name: string; text: string };

/** Below this a spelling could be part of something else. */
const LONG_ENOUGH = 12;

/** Which secrets stand in which place, and in what spelling. */
export function findSecrets(secrets: readonly Secret[], places: readonly Place[]): string[] {
  const sought = secrets.map(({ name, value }) => ({ name, spellings: [...spellingsOf(value)] }));
  return places.flatMap(({ name: place, text }) =>
    sought.flatMap(({ name, spellings }) => {
      const found = spellings.find((spelling) => text.includes(spelling));
      if (found === undefined) return [];
      const at = text.indexOf(found);
      return [`${name} in ${place}: ${text.slice(Math.max(0, at - 120), at + found.length + 20)}`];
    }),
  );
}

/** As it is, in an address, in JSON, in hex as Postgres shows bytes, and in base64 wherever in a longer text it begins. */
export function spellingsOf(secret: string): Set<string> {
  const bytes = Buffer.from(secret);
  const base64 = [0, 1, 2].map((before) => {
    const text = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64');
    // What stands in the first and in the last four letters depends on the neighbours.
    return text.slice(before === 0 ? 0 : 4, (before + bytes.length) % 3 === 0 ? undefined : -4);
  });
  const spellings = [
    secret,
    encodeURIComponent(secret),
    JSON.stringify(secret).slice(1, -1),
    bytes.toString('hex'),
    ...base64,
    ...base64.map((text) => text.replaceAll('+', '-').replaceAll('/', '_')),
  ];
  return new Set(spellings.filter((spelling) => spelling.length >= LONG_ENOUGH));
}

/** Every value of every row of every table. */
export async function databaseText({ db }: Pick<Container, 'db'>): Promise<string> {
  const tables: string[] = await db('pg_tables').where({ schemaname: 'public' }).pluck('tablename');
  const rows = await Promise.all(
    tables.map(async (table) => {
      const answer = await db.raw<{ rows: { row: string }[] }>('select to_jsonb(t)::text as row from ?? t', [table]);
      return answer.rows.map(({ row }) => `${table} ${row}`);
    }),
  );
  return rows.flat().join('\n');
}

/** Every event of every run of a namespace, with payloads, failures, memos and search attributes. */
export async function historiesText({ temporal }: Pick<Container, 'temporal'>): Promise<string> {
  const { workflow } = temporal.client;
  const texts: string[] = [];
  for (const { workflowId, runId, raw } of await collect(workflow.list())) {
    texts.push(workflowId, textOf(raw), textOf(await workflow.getHandle(workflowId, runId).fetchHistory()));
  }
  return texts.join('\n');
}

/** All strings and bytes in a value, however deep. */
function textOf(value: unknown): string {
  if (typeof value === 'string') return value;
  if (value instanceof Uint8Array) return Buffer.from(value).toString();
  if (typeof value !== 'object' || value === null) return '';
  return Object.values(value).map(textOf).filter(Boolean).join('\n');
}

/** Of all files in a folder, with their names. */
export async function filesText(folder: string): Promise<string> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name));
  const texts = await Promise.all(files.map(async (path) => `${path}\n${await readFile(path, 'utf8')}`));
  return texts.join('\n');
}

/**
 * What Postgres, Temporal, the model server and the others log from now on: their logs are beside the cluster.
 * @returns how to read it
 */
export async function followServiceLogs({ db }: Pick<Container, 'db'>): Promise<() => Promise<string>> {
  const { rows } = await db.raw<{ rows: { directory: string }[] }>(
    `select current_setting('data_directory') as directory`,
  );
  const folder = join(dirname(rows[0]?.directory ?? ''), 'logs');
  const read = async (name: string) => ({ name, text: await readFile(join(folder, name), 'utf8') });
  const lengths = new Map(
    (await Promise.all((await readdir(folder)).map(read))).map(({ name, text }) => [name, text.length]),
  );
  return async () => {
    const logs = await Promise.all((await readdir(folder)).map(read));
    // One that is shorter than it was has been put aside, and begun anew.
    const news = logs.map(({ name, text }) => {
      const before = lengths.get(name) ?? 0;
      return text.slice(before > text.length ? 0 : before);
    });
    return news.join('\n');
  };
}
