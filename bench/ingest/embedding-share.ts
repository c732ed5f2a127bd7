import { miniLm } from '../../services/model-server/model-manifest.ts';
import { createEmbedder } from '../../src/adapters/models/embedder.ts';
import { createTokenCounter } from '../../src/adapters/text/token-counter.ts';
import { indexedTextOfChunk } from '../../src/domain/documents/chunk-document.ts';
import type { MeasuredProduct } from '../measured-product.ts';
import { median } from '../median.ts';
import { report, roundsOf } from '../report.ts';
import { readCorpus } from './corpus.ts';

const rounds = roundsOf(5);
const goal = 0.95;

type Chunk = { content: string; contextual_text: string };

/**
 * P4: ingests documents through API, workflow and stores, and compares that with embedding the texts of their chunks
 * alone.
 */
export async function measureEmbeddingShare(product: MeasuredProduct): Promise<string[]> {
  const tokens = createTokenCounter();
  const embedder = createEmbedder({
    ...{ baseUrl: product.modelBaseUrl, apiKey: 'local', model: miniLm.id },
    estimateTokens: (text) => tokens.count(text),
  });
  const corpus = readCorpus();
  const texts = await ingest(product, corpus).then(({ texts }) => texts);
  await embedder.embed(texts, { isBulk: true });

  const ingestions: number[] = [];
  const embeddings: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    ingestions.push((await ingest(product, corpus)).ms);
    const startedAt = performance.now();
    await embedder.embed(texts, { isBulk: true });
    embeddings.push(performance.now() - startedAt);
  }
  const ratios = embeddings.map((ms, round) => ms / (ingestions[round] ?? Number.NaN));
  const ratio = median(ratios);
  report({
    ...{ goal: 'P4', what: `ingestion of ${corpus.length} documents, ${texts.length} chunks`, unit: 'ms' },
    ...{ rounds: ingestions, peer: 'the embedder alone', ratios, atLeast: goal },
  });
  return [
    `P4: ${corpus.length} documents, ${texts.length} chunks, ${rounds} rounds in turns, medians`,
    '',
    '| | ms | rate |',
    '|---|---|---|',
    `| the embedder alone, all chunks at hand | ${Math.round(median(embeddings))} | 1 |`,
    `| upload to searchable, of all documents at once | ${Math.round(median(ingestions))} | ${ratio.toFixed(2)} |`,
    '',
    `Goal: a rate of at least ${goal}.`,
  ];
}

/** Ingests in a new organization, so that no cached embedding is reused. */
async function ingest(product: MeasuredProduct, corpus: readonly string[]): Promise<{ ms: number; texts: string[] }> {
  const api = await product.signUp();
  const startedAt = performance.now();
  const uploads = await Promise.all(corpus.map((text, index) => product.upload(api, `document-${index}.md`, text)));
  for (const { runId } of uploads) await product.untilDone(runId);
  const ms = performance.now() - startedAt;
  const texts: string[] = [];
  for (const { id } of uploads) {
    const { items } = await api.get<{ items: Chunk[] }>(`/documents/${id}/chunks`);
    texts.push(
      ...items.map(({ content, contextual_text }) => indexedTextOfChunk({ content, contextualText: contextual_text })),
    );
  }
  return { ms, texts };
}
