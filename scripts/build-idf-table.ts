/**
 * Writes src/domain/alignment/idf-table.json: the document frequency of each stem in English texts, counted over the
 * training texts of CLINC150 and the paragraphs of an English Wikipedia sample. Run `node scripts/build-idf-table.ts`
 * with DATASETS_DIR.
 */
import { createHash } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createTextAnalyzer } from '#src/adapters/text/text-analyzer.ts';

const datasetsDir = process.env.DATASETS_DIR ?? '../shared/datasets';
const target = new URL('../src/domain/alignment/idf-table.json', import.meta.url);

async function source(path: string, attribution: string) {
  const text = await readFile(join(datasetsDir, path), 'utf8');
  return { text, record: { path, sha256: createHash('sha256').update(text).digest('hex'), attribution } };
}

const clinc = await source('clinc150/data_full.json', 'CLINC150 (clinc/oos-eval), training split, CC BY 3.0');
const wiki = await source(
  'chroma_chunking/wikitexts.md',
  'chunking_evaluation (brandonstarxel), Wikipedia sample, MIT',
);

const { train }: { train: [text: string, intent: string][] } = JSON.parse(clinc.text);
const texts = [...train.map(([text]) => text), ...wiki.text.split('\n').filter((paragraph) => paragraph.trim() !== '')];

const analyze = createTextAnalyzer();
const frequencies = new Map<string, number>();
for (const text of texts) {
  for (const stem of new Set(analyze(text).map((term) => term.stem))) {
    frequencies.set(stem, (frequencies.get(stem) ?? 0) + 1);
  }
}

const stemsByFrequency: Record<string, string> = {};
for (const [stem, frequency] of [...frequencies].sort(([a, m], [b, n]) => m - n || (a < b ? -1 : 1))) {
  stemsByFrequency[frequency] = stemsByFrequency[frequency] ? `${stemsByFrequency[frequency]} ${stem}` : stem;
}
const table = {
  about: 'In how many of `texts` English texts each stem occurs. Written by scripts/build-idf-table.ts.',
  sources: [clinc.record, wiki.record],
  texts: texts.length,
  stemsByFrequency,
};
await writeFile(target, `${JSON.stringify(table, null, 1)}\n`);
console.log(`${texts.length} texts, ${frequencies.size} stems`);
