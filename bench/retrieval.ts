// `npm run bench:retrieval [-- --store pgvector|qdrant] [-- cranfield chunking]`: how well the product finds, on public data.
import { existsSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { qwenCoder } from '../services/model-server/model-manifest.ts';
import { startProduct } from './measured-product.ts';
import { measureChunking, reportChunking } from './retrieval/chunking-quality.ts';
import { type Library, openLibrary } from './retrieval/library.ts';
import { measureRanking, reportRanking } from './retrieval/ranking-quality.ts';

const stores = ['pgvector', 'qdrant'];
const { values, positionals } = parseArgs({ options: { store: { type: 'string' } }, allowPositionals: true });
const isWanted = (name: string) => positionals.length === 0 || positionals.includes(name);
const withLlm = qwenCoder.files.every(({ name }) => existsSync(join(process.env.MODEL_DIR ?? '', name)));

const wantedStores = values.store === undefined ? stores : [values.store];
for (const store of wantedStores) {
  const product = await startProduct({
    VECTOR_STORE: store,
    // The chat model is here for reranking only; nobody has to wait until it is loaded.
    CHAT_MODEL: 'extractive-1',
    TIER_LIMITS: '{"free":{"documents":10000}}',
  });
  const withLibrary = async (measure: (library: Library) => Promise<string[]>) => {
    const library = await openLibrary(product);
    try {
      console.log(['', ...(await measure(library))].join('\n'));
    } finally {
      await library.close();
    }
  };
  try {
    if (isWanted('cranfield')) {
      await withLibrary(async (library) => [
        `Cranfield, ${store}`,
        '',
        ...reportRanking(await measureRanking(library, { withLlm: withLlm && store === wantedStores[0] })),
      ]);
    }
    // How texts are cut matters on one store as on the other.
    if (isWanted('chunking') && store === wantedStores[0]) {
      await withLibrary(async (library) => [
        'Chroma chunking set',
        '',
        ...reportChunking(await measureChunking(library)),
      ]);
    }
  } finally {
    await product.stop();
  }
}
if (!withLlm) console.log('\nThe LLM rerank was left out: `npm run models -- fetch` brings the chat model.');
console.log(`\nnode ${process.versions.node}, ${cpus()[0]?.model ?? 'unknown CPU'}, ${cpus().length} cores`);
