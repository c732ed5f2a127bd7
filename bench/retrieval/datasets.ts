import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const folder = process.env.DATASETS_DIR ?? join(import.meta.dirname, '..', '..', '..', 'shared', 'datasets');

/**
 * Reads a file of the public data sets, which docs/benchmarks.md lists with their sources; they are not in this
 * repository.
 */
export function readDataset(...path: string[]): string {
  const file = join(folder, ...path);
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw new Error(`${file} is missing: set DATASETS_DIR to the folder that has ${path[0]}/.`, { cause: error });
  }
}
