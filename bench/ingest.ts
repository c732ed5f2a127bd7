// `npm run bench:ingest [-- P4 P9 P11 files P3]` measures the cost of workflows, stores and concurrent load in an
// ingestion.
import { cpus } from 'node:os';
import { measureEmbeddingShare } from './ingest/embedding-share.ts';
import { measureBesideLangChain } from './ingest/langchain.ts';
import { measureManyFiles } from './ingest/many-files.ts';
import { measureNeighbour } from './ingest/neighbour.ts';
import { measureOrchestration } from './ingest/orchestration.ts';
import { startProduct } from './measured-product.ts';

const measures = {
  P4: measureEmbeddingShare,
  P9: measureOrchestration,
  P11: measureNeighbour,
  files: measureManyFiles,
};

const wanted = process.argv.slice(2);
const isWanted = (name: string) => wanted.length === 0 || wanted.includes(name);
if (Object.keys(measures).some(isWanted)) {
  const product = await startProduct();
  try {
    for (const [name, measure] of Object.entries(measures)) {
      if (isWanted(name)) console.log(['', ...(await measure(product))].join('\n'));
    }
  } finally {
    await product.stop();
  }
}
// P3 runs last, because its product changes the environment variables of this process.
if (isWanted('P3')) console.log(['', ...(await measureBesideLangChain())].join('\n'));
console.log(`\nnode ${process.versions.node}, ${cpus()[0]?.model ?? 'unknown CPU'}, ${cpus().length} cores`);
