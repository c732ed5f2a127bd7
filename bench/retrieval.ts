// `npm run bench:retrieval [-- --store pgvector|qdrant] [-- cranfield llm chunking xquad models]` measures retrieval
// quality on public data sets.
import { existsSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { qwenCoder } from '../services/model-server/model-manifest.ts';
import { type MeasuredProduct, startProduct } from './measured-product.ts';
import { reportSkipped } from './report.ts';
import { measureChunking, reportChunking } from './retrieval/chunking-quality.ts';
import { measureEmbeddingModels, reportEmbeddingModels } from './retrieval/embedding-models.ts';
import { type Library, openLibrary } from './retrieval/library.ts';
import {
  addAbstracts,
  measureLanguages,
  measureRanking,
  reportLanguages,
  reportRanking,
} from './retrieval/ranking-quality.ts';

const { values, positionals } = parseArgs({ options: { store: { type: 'string' } }, allowPositionals: true });
const isWanted = (name: string) => positionals.length === 0 || positionals.includes(name);
const withLlm =
  isWanted('llm') && qwenCoder.files.every(({ name }) => existsSync(join(process.env.MODEL_DIR ?? '', name)));

const toolsDir = process.env.TOOLS_DIR;
if (!toolsDir) throw new Error('TOOLS_DIR is not set: run it as `npm run bench:retrieval`.');
if (isWanted('models')) print('Vectors alone, nDCG@10', reportEmbeddingModels(await measureEmbeddingModels(toolsDir)));
if (['cranfield', 'xquad', 'chunking'].some(isWanted)) await measureProduct();

async function measureProduct(): Promise<void> {
  const product = await startProduct({
    VECTOR_STORE: values.store ?? 'qdrant',
    // Only reranking needs the language model, so the start does not wait until it is loaded.
    CHAT_MODEL: 'extractive-1',
    TIER_LIMITS: '{"free":{"documents":10000}}',
  });
  try {
    if (isWanted('cranfield')) await withLibrary(product, compareRankings);
    if (isWanted('xquad')) {
      print('XQuAD, nDCG@10', reportLanguages(await measureLanguages(() => openLibrary(product))));
    }
    // Chunking quality does not depend on the vector store, so it is measured on one only.
    if (isWanted('chunking')) await withLibrary(product, compareChunking);
  } finally {
    await product.stop();
  }
}

async function withLibrary(product: MeasuredProduct, measure: (library: Library) => Promise<void>): Promise<void> {
  const library = await openLibrary(product);
  try {
    await measure(library);
  } finally {
    await library.close();
  }
}

async function compareRankings(library: Library): Promise<void> {
  await addAbstracts(library);
  const store = values.store ?? 'qdrant';
  print(`Cranfield, ${store}`, reportRanking(await measureRanking(library, { withLlm }), store));
  if (values.store !== undefined) return;
  const inPostgres = await library.inPostgres();
  try {
    print('Cranfield, pgvector', reportRanking(await measureRanking(inPostgres, { withLlm: false }), 'pgvector'));
  } finally {
    await inPostgres.close();
  }
}

async function compareChunking(library: Library): Promise<void> {
  print('Chroma chunking set', reportChunking(await measureChunking(library)));
}

function print(title: string, lines: readonly string[]): void {
  console.log(['', title, '', ...lines].join('\n'));
}

if (isWanted('llm') && !withLlm)
  reportSkipped('reranking by the language model: download it with `npm run models -- fetch`');
console.log(`\nnode ${process.versions.node}, ${cpus()[0]?.model ?? 'unknown CPU'}, ${cpus().length} cores`);
