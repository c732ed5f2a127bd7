import type { RerankerType } from '#src/domain/rag-config.ts';
import { median } from '../median.ts';
import { average, pairedBootstrap } from './bootstrap.ts';
import { type CranfieldQuery, readCranfield } from './cranfield.ts';
import type { Library, RagSettings } from './library.ts';
import { ndcg, recall } from './metrics.ts';

/** What one way to rank reached, for each query in their order; `latencyMs` of the whole call in this process. */
export type Measured = { name: string; ndcg: number[]; recall: number[]; latencyMs: number[] };

type Way = { name: string; settings: RagSettings; reranking: RerankerType | null };

/** Reranking hands on `top_k` chunks, 8 as shipped: too few to tell the first ten documents. */
const allKept = { topK: 50 };
const ways: readonly Way[] = [
  { name: 'BM25', settings: { retrieval: { mode: 'word_match' }, reranking: allKept }, reranking: null },
  { name: 'vector', settings: { retrieval: { mode: 'vector' } }, reranking: null },
  { name: 'hybrid', settings: { retrieval: { mode: 'hybrid' } }, reranking: null },
  { name: 'hybrid + rerank', settings: {}, reranking: 'cross_encoder' },
];
/** A language model takes ten seconds a question: every eleventh one of the 225. */
const sampleStep = 11;
const sampleSize = 20;

/** Every query by every way, through the product's own service. A document stands where its first chunk does. */
export async function measureRanking(library: Library, options: { withLlm: boolean }): Promise<Measured[]> {
  const { documents, queries } = readCranfield();
  await library.add(documents.map(({ id, title, text }) => ({ id, name: title, text })));
  const sourceOf = await library.passages();
  const measured: Measured[] = [];
  for (const { name, settings, reranking } of ways) {
    await library.configure(settings);
    measured.push(await measure(name, queries, reranking));
  }
  if (options.withLlm) measured.push(await measure('hybrid + LLM rerank', sampleOf(queries), 'llm'));
  return measured;

  async function measure(name: string, asked: readonly CranfieldQuery[], reranking: RerankerType | null) {
    const found: Measured = { name, ndcg: [], recall: [], latencyMs: [] };
    for (const { text, relevant } of asked) {
      const startedAt = performance.now();
      const chunks = await library.rank(text, reranking);
      found.latencyMs.push(performance.now() - startedAt);
      const ranking = [...new Set(chunks.map((id) => sourceOf.get(id)?.source ?? id))];
      found.ndcg.push(ndcg(ranking, relevant, 10));
      found.recall.push(recall(ranking, relevant, 50));
    }
    return found;
  }
}

function sampleOf<Item>(items: readonly Item[]): Item[] {
  return items.filter((_, index) => index % sampleStep === 0).slice(0, sampleSize);
}

/** What was measured here by other means before there was a product: the figures to reach. */
const goals: Record<string, number> = { BM25: 0.384, vector: 0.4, hybrid: 0.43 };

export function reportRanking(measured: readonly Measured[]): string[] {
  const of = (name: string) => measured.find((way) => way.name === name);
  const rows = measured.map(({ name, ndcg, recall, latencyMs }) => {
    const figures = [average(ndcg).toFixed(4), goals[name]?.toFixed(3) ?? '', average(recall).toFixed(4)];
    return `| ${[name, ...figures, median(latencyMs).toFixed(1)].join(' | ')} |`;
  });
  const [words, meaning, hybrid, reranked] = ways.map(({ name }) => of(name)?.ndcg ?? []);
  if (!words || !meaning || !hybrid || !reranked) return rows;
  const best = average(words) > average(meaning) ? words : meaning;
  const llm = of('hybrid + LLM rerank')?.ndcg;
  return [
    '| | nDCG@10 | to reach | Recall@50 | ms, median |',
    '|---|---|---|---|---|',
    ...rows,
    '',
    difference('hybrid − its best leg', hybrid, best),
    difference('rerank − hybrid', reranked, hybrid),
    ...(llm ? [difference(`LLM rerank − hybrid, on ${llm.length} of the queries`, llm, sampleOf(hybrid))] : []),
  ];
}

function difference(name: string, a: readonly number[], b: readonly number[]): string {
  const { mean, low, high } = pairedBootstrap(a, b);
  const [signed, from, to] = [mean, low, high].map((value) => `${value < 0 ? '−' : '+'}${Math.abs(value).toFixed(4)}`);
  return `- ${name}: ${signed} (95 % interval ${from} to ${to})`;
}
