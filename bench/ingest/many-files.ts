import { loadavg } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { encode } from 'gpt-tokenizer/encoding/o200k_base';
import type { ApiClient } from '../../scripts/demo/api-client.ts';
import { miniLm } from '../../services/model-server/model-manifest.ts';
import { createEmbedder } from '../../src/adapters/models/embedder.ts';
import { createTokenCounter } from '../../src/adapters/text/token-counter.ts';
import { indexedTextOfChunk } from '../../src/domain/documents/chunk-document.ts';
import { type MeasuredProduct, processNames } from '../measured-product.ts';
import { median } from '../median.ts';
import { report, roundsOf } from '../report.ts';
import { readManyTexts } from './corpus.ts';

const connections = 24;
const goal = 0.8;
const POLL_INTERVAL_MS = 250;

type Chunk = { content: string; contextual_text: string };
type Round = {
  tokenizingMs: number;
  embeddingMs: number;
  uploadsMs: number;
  pipelineMs: number;
  cpuMs: number[];
  load: number;
};

/**
 * Measures the time from a user's first upload until the last file is searchable, compared with the bare work on the
 * texts.
 */
export async function measureManyFiles(
  product: MeasuredProduct,
  fileCount = 500,
  roundCount = roundsOf(3),
): Promise<string[]> {
  const files = readManyTexts(fileCount);
  const tokens = createTokenCounter();
  const embedder = createEmbedder({
    ...{ baseUrl: product.modelBaseUrl, apiKey: 'local', model: miniLm.id },
    estimateTokens: (text) => tokens.count(text),
  });
  const warm = await product.signUp();
  await ingest(product, warm, files.slice(0, 20));

  const rounds: Round[] = [];
  let chunks: string[] = [];
  let tokenCount = 0;
  for (let round = 0; round < roundCount; round += 1) {
    const load = loadavg()[0] ?? Number.NaN;
    const api = await product.signUp();
    const before = await cpuTimes(product);
    const pipeline = await ingest(product, api, files);
    const cpuMs = (await cpuTimes(product)).map((time, place) => time - (before[place] ?? 0));
    if (chunks.length === 0) chunks = await readChunks(api, pipeline.ids);

    let startedAt = performance.now();
    tokenCount = files.reduce((sum, text) => sum + encode(text).length, 0);
    const tokenizingMs = performance.now() - startedAt;
    startedAt = performance.now();
    await embedder.embed(chunks, { isBulk: true });
    const embeddingMs = performance.now() - startedAt;
    rounds.push({ tokenizingMs, embeddingMs, ...pipeline, cpuMs, load });
  }

  const seconds = (of: (round: Round) => number) => (median(rounds.map(of)) / 1_000).toFixed(1);
  const ratios = rounds.map((round) => (round.tokenizingMs + round.embeddingMs) / round.pipelineMs);
  report({
    ...{ goal: 'files', what: `ingestion of ${fileCount} files, ${chunks.length} chunks`, unit: 's' },
    ...{ rounds: rounds.map((round) => round.pipelineMs / 1_000), peer: 'tokenizer and embedder alone', ratios },
    atLeast: goal,
  });
  const perFile = (place: number) => median(rounds.map(({ cpuMs }) => (cpuMs[place] ?? Number.NaN) / fileCount));
  const total = processNames.reduce((sum, _, place) => sum + perFile(place), 0);
  const bytes = files.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
  return [
    `files: ${fileCount} files, ${Math.round(bytes / 1_000)} kB, ${tokenCount} tokens, ${chunks.length} chunks, ` +
      `${connections} connections, ${roundCount} rounds in turns, medians; load ${rounds.map(({ load }) => load.toFixed(1)).join(', ')}`,
    '',
    '| | s | rate |',
    '|---|---|---|',
    `| tokenizing | ${seconds((round) => round.tokenizingMs)} | |`,
    `| embedding, all chunks at hand | ${seconds((round) => round.embeddingMs)} | 1 for both |`,
    `| uploads | ${seconds((round) => round.uploadsMs)} | |`,
    `| first upload to all searchable | ${seconds((round) => round.pipelineMs)} | ${median(ratios).toFixed(2)} (${ratios.map((ratio) => ratio.toFixed(2)).join(', ')}) |`,
    '',
    '| processor time of a file | ms |',
    '|---|---|',
    ...processNames.map((name, place) => `| ${name} | ${perFile(place).toFixed(0)} |`),
    `| of that the model's share | ${(perFile(processNames.indexOf('model-server')) / total).toFixed(2)} |`,
    '',
    `Goal: a rate of at least ${goal}.`,
  ];
}

async function ingest(product: MeasuredProduct, api: ApiClient, files: readonly string[]) {
  const startedAt = performance.now();
  const waiting = files.map((text, index) => ({ text, name: `file-${index}.md` }));
  const ids: string[] = [];
  await Promise.all(
    Array.from({ length: connections }, async () => {
      for (let file = waiting.shift(); file; file = waiting.shift()) {
        ids.push((await product.upload(api, file.name, file.text)).id);
      }
    }),
  );
  const uploadsMs = performance.now() - startedAt;
  await untilNoneIs(api, ['queued', 'running']);
  const pipelineMs = performance.now() - startedAt;
  const { items } = await api.get<{ items: unknown[] }>('/jobs?status=succeeded&limit=1');
  if (items.length === 0 || !(await hasNone(api, ['failed', 'parked', 'cancelled'])))
    throw new Error('Not all ingestion jobs succeeded.');
  return { ids, uploadsMs, pipelineMs };
}

async function untilNoneIs(api: ApiClient, statuses: readonly string[]): Promise<void> {
  while (!(await hasNone(api, statuses))) await delay(POLL_INTERVAL_MS);
}

async function hasNone(api: ApiClient, statuses: readonly string[]): Promise<boolean> {
  for (const status of statuses) {
    const { items } = await api.get<{ items: unknown[] }>(`/jobs?status=${status}&limit=1`);
    if (items.length > 0) return false;
  }
  return true;
}

async function readChunks(api: ApiClient, ids: readonly string[]): Promise<string[]> {
  const texts: string[] = [];
  for (const id of ids) {
    const { items } = await api.get<{ items: Chunk[] }>(`/documents/${id}/chunks`);
    for (const { content, contextual_text } of items) {
      texts.push(indexedTextOfChunk({ content, contextualText: contextual_text }));
    }
  }
  return texts;
}

async function cpuTimes(product: MeasuredProduct): Promise<number[]> {
  return Promise.all(processNames.map((name) => product.cpuMs(name)));
}
