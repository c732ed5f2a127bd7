import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** A file of the public data sets, and what is recorded of it beside all that is made from it. */
export type DatasetFile = { text: string; record: { path: string; sha256: string; attribution: string } };

const folder = process.env.DATASETS_DIR ?? join(import.meta.dirname, '..', '..', '..', 'shared', 'datasets');

export function readDatasetFile(path: string, attribution: string): DatasetFile {
  const file = join(folder, path);
  try {
    const text = readFileSync(file, 'utf8');
    return { text, record: { path, sha256: createHash('sha256').update(text).digest('hex'), attribution } };
  } catch (error) {
    throw new Error(`${file} is missing: set DATASETS_DIR to the folder that has it.`, { cause: error });
  }
}
