import { createHash } from 'node:crypto';
import { readDataset } from '../../bench/retrieval/datasets.ts';

/** A file of a public data set. `record` is stored in everything that is fitted to the file. */
export type DatasetFile = { text: string; record: { path: string; sha256: string; attribution: string } };

/** @param path path of the file below DATASETS_DIR */
export function readDatasetFile(path: string, attribution: string): DatasetFile {
  const text = readDataset(...path.split('/'));
  return { text, record: { path, sha256: createHash('sha256').update(text).digest('hex'), attribution } };
}
