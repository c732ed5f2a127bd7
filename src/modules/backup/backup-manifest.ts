import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';

const FORMAT = 1;
const MANIFEST = 'manifest.json';

const count = z.int().min(0);
const writtenFile = z.object({ sizeBytes: count, sha256: z.string().regex(/^[0-9a-f]{64}$/) });

/** What a complete backup says of itself. It is written last: without it there is none. */
const manifestSchema = z.object({
  format: z.literal(FORMAT, 'is of another version of the service'),
  /** The moment of the database, and when all of it was written. */
  takenAt: z.iso.datetime(),
  completedAt: z.iso.datetime(),
  postgresMajor: count,
  /** The last one that the database had. */
  migration: z.string(),
  vectorStore: z.enum(['pgvector', 'qdrant']),
  /** Of each table that was written with its rows. */
  rows: z.record(z.string(), count),
  database: writtenFile,
  /** The list of the originals, and what they are together. */
  originals: writtenFile.extend({ count, bytes: count }),
  /** Originals that the store had lost, or damaged, before. */
  missingOriginals: count,
});

export type BackupManifest = z.infer<typeof manifestSchema>;
export const backupFormat = FORMAT;

/** One backup of a folder of backups. */
export type BackupPlace = { manifest: string; database: string; originals: string };

export function placeOf(backup: string): BackupPlace {
  return {
    manifest: join(backup, MANIFEST),
    database: join(backup, 'database.dump'),
    originals: join(backup, 'originals.ndjson'),
  };
}

/** Null where there is none, or one that was never finished. Throws for one that cannot be understood. */
export async function readManifest(backup: string): Promise<BackupManifest | null> {
  const { manifest: path } = placeOf(backup);
  const said = await readFile(path, 'utf8').catch((error: unknown) => {
    if (error instanceof Error && 'code' in error && ['ENOENT', 'ENOTDIR'].includes(String(error.code))) return null;
    throw error;
  });
  if (said === null) return null;
  const read = manifestSchema.safeParse(parse(said));
  if (read.success) return read.data;
  const [issue] = read.error.issues;
  throw new Error(
    `${path} cannot be understood: ${[issue?.path.join('.'), issue?.message].filter(Boolean).join(' ')}.`,
  );
}

function parse(said: string): unknown {
  try {
    return JSON.parse(said);
  } catch {
    return null;
  }
}
