import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const folder = process.env.DATASETS_DIR ?? join(import.meta.dirname, '..', '..', '..', 'shared', 'datasets');

/** A file of the public data sets, which are no part of this repository: docs/benchmarks.md says where they come from. */
export function readDataset(...path: string[]): string {
  const file = join(folder, ...path);
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw new Error(`${file} is missing: set DATASETS_DIR to the folder that has ${path[0]}/.`, { cause: error });
  }
}
