import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { seededRandom } from '../search/random.ts';

const root = join(import.meta.dirname, '..', '..');
const shortestFile = 300;
const medianFile = 6_000;
const longestFile = 60_000;

/**
 * Reads documents of about ten pages: Wikipedia articles if the public data sets are installed, otherwise the project's
 * documentation.
 */
export function readCorpus(documentLength = 20_000): string[] {
  const text = readPublicText() ?? readDocs();
  const count = Math.min(16, Math.floor(text.length / documentLength));
  return Array.from({ length: count }, (_, index) => text.slice(index * documentLength, (index + 1) * documentLength));
}

/**
 * Creates files with a realistic size distribution: half below 6 kB, some of 60 kB. Each is a run of whole paragraphs.
 * They overlap if the text is too short for `count` files, but no two are equal.
 */
export function readManyTexts(count: number): string[] {
  const paragraphs = (readPublicText(['wikitexts.md', 'finance.md', 'pubmed.md']) ?? readDocs()).split(/\n+/);
  const random = seededRandom(500);
  const texts = new Set<string>();
  while (texts.size < count) {
    const length = Math.min(longestFile, Math.max(shortestFile, medianFile * Math.exp(0.8 * random.normal())));
    const first = random.below(paragraphs.length);
    let text = '';
    for (let next = first; text.length < length; next += 1) text += `${paragraphs[next % paragraphs.length]}\n\n`;
    texts.add(text.slice(0, longestFile));
  }
  return [...texts];
}

function readPublicText(names = ['wikitexts.md', 'finance.md']): string | null {
  const datasets = process.env.DATASETS_DIR ?? join(root, '..', 'shared', 'datasets');
  try {
    return names.map((name) => readFileSync(join(datasets, 'chroma_chunking', name), 'utf8')).join('\n\n');
  } catch {
    return null;
  }
}

function readDocs(): string {
  const folder = join(root, 'docs');
  const pages = readdirSync(folder).filter((name) => name.endsWith('.md'));
  return pages.map((name) => readFileSync(join(folder, name), 'utf8')).join('\n\n');
}
