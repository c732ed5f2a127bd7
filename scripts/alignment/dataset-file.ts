import { createHash } from 'node:crypto';
import { readDataset } from '../../bench/retrieval/datasets.ts';

/** A file of the public data sets, and what is recorded of it beside all that is made from it. */
export type DatasetFile = { text: string; record: { path: string; sha256: string; attribution: string } };

/** @param path with the folder of the data set */
export function readDatasetFile(path: string, attribution: string): DatasetFile {
  const text = readDataset(...path.split('/'));
  return { text, record: { path, sha256: createHash('sha256').update(text).digest('hex'), attribution } };
}
