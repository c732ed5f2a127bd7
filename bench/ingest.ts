// `npm run bench:ingest [-- P4 P9 P11 files]`: what workflows, stores and neighbours cost an ingestion, on the product as it starts.
import { cpus } from 'node:os';
import { measureEmbeddingShare } from './ingest/embedding-share.ts';
import { measureManyFiles } from './ingest/many-files.ts';
import { measureNeighbour } from './ingest/neighbour.ts';
import { measureOrchestration } from './ingest/orchestration.ts';
import { startProduct } from './measured-product.ts';

/** By the names that the goals have in docs/benchmarks.md. */
const measures = {
  P4: measureEmbeddingShare,
  P9: measureOrchestration,
  P11: measureNeighbour,
  files: measureManyFiles,
};

const wanted = process.argv.slice(2);
const product = await startProduct();
try {
  for (const [name, measure] of Object.entries(measures)) {
    if (wanted.length > 0 && !wanted.includes(name)) continue;
    console.log(['', ...(await measure(product))].join('\n'));
  }
  console.log(`\nnode ${process.versions.node}, ${cpus()[0]?.model ?? 'unknown CPU'}, ${cpus().length} cores`);
} finally {
  await product.stop();
}
