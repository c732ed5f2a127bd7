import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '..', '..');

/** Documents of about ten pages: Wikipedia articles where the public data is at hand, else our own documentation. */
export function readCorpus(documentLength = 20_000): string[] {
  const text = readPublicText() ?? readDocs();
  const count = Math.min(16, Math.floor(text.length / documentLength));
  return Array.from({ length: count }, (_, index) => text.slice(index * documentLength, (index + 1) * documentLength));
}

function readPublicText(): string | null {
  const datasets = process.env.DATASETS_DIR ?? join(root, '..', 'shared', 'datasets');
  try {
    return ['wikitexts.md', 'finance.md']
      .map((name) => readFileSync(join(datasets, 'chroma_chunking', name), 'utf8'))
      .join('\n\n');
  } catch {
    return null;
  }
}

function readDocs(): string {
  const folder = join(root, 'docs');
  const pages = readdirSync(folder).filter((name) => name.endsWith('.md'));
  return pages.map((name) => readFileSync(join(folder, name), 'utf8')).join('\n\n');
}
