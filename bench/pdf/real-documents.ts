import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';

const names = [
  'DA-1p.pdf',
  'REPAIR-2022-INV-001_multipage.pdf',
  'SPARSE-2024-INV-1234_borderless_table.pdf',
  'copy-protected.pdf',
  'movie-theater-booking-2024.pdf',
  'test.pdf',
];

/** Paths of real PDFs, ten pages in all; empty if the data sets are not installed. */
export function realDocuments(): string[] {
  const folder = resolve(process.env.DATASETS_DIR ?? '../shared/datasets', 'documents');
  return names.map((name) => join(folder, name)).filter((path) => existsSync(path));
}
