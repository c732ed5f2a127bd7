import type { RerankerType } from '../../src/domain/documents/rag-config.ts';
import { median } from '../median.ts';
import { report } from '../report.ts';
import { average, pairedBootstrap } from './bootstrap.ts';
import { type CranfieldQuery, readCranfield } from './cranfield.ts';
import type { Library, RagSettings } from './library.ts';
import { ndcg, recall } from './metrics.ts';
import { readXquadCollection, xquadLanguages } from './xquad.ts';

/**
 * Results of one ranking method, one value for each query. `latencyMs` is of the whole call; `degraded` counts the
 * degraded searches.
 */
export type Measured = { name: string; ndcg: number[]; recall: number[]; latencyMs: number[]; degraded: number };

/** Reranking returns `top_k` chunks, 8 by default: too few to measure the first ten documents. */
const allKept = { topK: 50 };
const ways: readonly { name: string; settings: RagSettings }[] = [
  { name: 'BM25', settings: { retrieval: { mode: 'word_match' }, reranking: allKept } },
  { name: 'vector', settings: { retrieval: { mode: 'vector' } } },
  { name: 'hybrid', settings: { retrieval: { mode: 'hybrid' } } },
];
const reranked = 'hybrid + rerank';
const rerankedByLlm = 'hybrid + LLM rerank';
/** LLM reranking takes about ten seconds a question, so it is measured on every eleventh of the 225 queries. */
const sampleStep = 11;
const sampleSize = 20;

export async function addAbstracts(library: Pick<Library, 'add'>): Promise<void> {
  const { documents } = readCranfield();
  await library.add(documents.map(({ id, title, text }) => ({ id, name: title, text })));
}

/** Runs every query through every ranking method of the product. A document has the rank of its first chunk. */
export async function measureRanking(
  library: Pick<Library, 'configure' | 'passages' | 'rank'>,
  options: { withLlm: boolean },
): Promise<Measured[]> {
  const { queries } = readCranfield();
  const sourceOf = await library.passages();
  const measured: Measured[] = [];
  for (const { name, settings } of ways) {
    await library.configure(settings);
    measured.push(await measure(name, queries, null));
  }
  measured.push(await measure(reranked, queries, 'cross_encoder'));
  if (options.withLlm) measured.push(await measure(rerankedByLlm, sampleOf(queries), 'llm'));
  return measured;

  function measure(name: string, asked: readonly CranfieldQuery[], reranking: RerankerType | null) {
    return measureWay(name, { library, asked, sourceOf, reranking });
  }
}

async function measureWay(
  name: string,
  of: {
    library: Pick<Library, 'rank'>;
    asked: readonly CranfieldQuery[];
    sourceOf: Awaited<ReturnType<Library['passages']>>;
    reranking: RerankerType | null;
  },
): Promise<Measured> {
  const { library, asked, sourceOf, reranking } = of;
  const found: Measured = { name, ndcg: [], recall: [], latencyMs: [], degraded: 0 };
  for (const { text, relevant } of asked) {
    const startedAt = performance.now();
    const { chunkIds, isDegraded } = await library.rank(text, reranking);
    found.latencyMs.push(performance.now() - startedAt);
    const ranking = [...new Set(chunkIds.map((id) => sourceOf.get(id)?.source ?? id))];
    if (isDegraded) found.degraded += 1;
    found.ndcg.push(ndcg(ranking, relevant, 10));
    found.recall.push(recall(ranking, relevant, 50));
  }
  return found;
}

export type MeasuredLanguage = { language: string; ways: Measured[] };

/**
 * Runs the questions of XQuAD through each way to rank, each language in an organization of its own, and then every
 * fourth question in an organization that has all of them and Cranfield's abstracts.
 */
export async function measureLanguages(openLibrary: () => Promise<Library>): Promise<MeasuredLanguage[]> {
  const sets = xquadLanguages.map((language) => ({ language, ...readXquadCollection(language) }));
  const cranfield = readCranfield();
  const measured: MeasuredLanguage[] = [];
  for (const { language, paragraphs, questions } of sets) {
    const library = await openLibrary();
    try {
      await library.add(paragraphs.map(({ id, text }) => ({ id, name: id, text })));
      measured.push(...(await measureWays(library, [{ language, questions }])));
    } finally {
      await library.close();
    }
  }
  const library = await openLibrary();
  try {
    await addAbstracts(library);
    await library.add(sets.flatMap(({ paragraphs }) => paragraphs.map(({ id, text }) => ({ id, name: id, text }))));
    const asked = sets.map(({ language, questions }) => ({
      language: `${language}, among all`,
      questions: questions.filter((_, index) => index % 4 === 0),
    }));
    measured.push(
      ...(await measureWays(library, [{ language: 'en, among all', questions: cranfield.queries }, ...asked])),
    );
  } finally {
    await library.close();
  }
  return measured;
}

async function measureWays(
  library: Library,
  sets: readonly { language: string; questions: readonly CranfieldQuery[] }[],
): Promise<MeasuredLanguage[]> {
  const sourceOf = await library.passages();
  const measured = sets.map(({ language }): MeasuredLanguage => ({ language, ways: [] }));
  for (const { name, settings } of ways) {
    await library.configure(settings);
    for (const [index, { questions: asked }] of sets.entries()) {
      measured[index]?.ways.push(await measureWay(name, { library, asked, sourceOf, reranking: null }));
    }
  }
  return measured;
}

export function reportLanguages(measured: readonly MeasuredLanguage[]): string[] {
  return [
    '| language | BM25 | vector | hybrid | hybrid − its best leg |',
    '|---|---|---|---|---|',
    ...measured.map(({ language, ways: [words, vectors, hybrid] }) => {
      const [byWords = [], byVectors = [], fused = []] = [words?.ndcg, vectors?.ndcg, hybrid?.ndcg];
      report({
        ...{ goal: 'retrieval', what: `nDCG@10 on XQuAD, ${language}: hybrid`, rounds: average(fused) },
        atLeast: Math.max(average(byWords), average(byVectors)),
      });
      const best = average(byWords) > average(byVectors) ? byWords : byVectors;
      const figures = [byWords, byVectors, fused].map((values) => average(values).toFixed(4));
      return `| ${[language, ...figures, interval(fused, best)].join(' | ')} |`;
    }),
  ];
}

function sampleOf<Item>(items: readonly Item[]): Item[] {
  return items.filter((_, index) => index % sampleStep === 0).slice(0, sampleSize);
}

/** Values that a prototype reached on this data before the product existed. */
const goals: Record<string, number> = { BM25: 0.384, vector: 0.4, hybrid: 0.43 };

export function reportRanking(measured: readonly Measured[], store: string): string[] {
  for (const { name, ndcg } of measured) {
    const [what, atLeast] = [`nDCG@10 on Cranfield, ${store}: ${name}`, goals[name]];
    report({ goal: 'retrieval', what, rounds: average(ndcg), ...(atLeast !== undefined && { atLeast }) });
  }
  const of = (wanted: string) => measured.find(({ name }) => name === wanted)?.ndcg ?? [];
  const rows = measured.map(({ name, ndcg, recall, latencyMs, degraded }) => {
    const shown = degraded > 0 ? `${name} (not in time for ${degraded} of ${ndcg.length})` : name;
    const figures = [average(ndcg).toFixed(4), goals[name]?.toFixed(3) ?? '', average(recall).toFixed(4)];
    return `| ${[shown, ...figures, median(latencyMs).toFixed(1)].join(' | ')} |`;
  });
  const [words, meaning, hybrid] = [of('BM25'), of('vector'), of('hybrid')];
  const best = average(words) > average(meaning) ? words : meaning;
  const byLlm = of(rerankedByLlm);
  return [
    '| | nDCG@10 | to reach | Recall@50 | ms, median |',
    '|---|---|---|---|---|',
    ...rows,
    '',
    difference('hybrid − its best leg', hybrid, best),
    difference('rerank − hybrid', of(reranked), hybrid),
    ...(byLlm.length > 0
      ? [difference(`LLM rerank − hybrid, on ${byLlm.length} of the queries`, byLlm, sampleOf(hybrid))]
      : []),
  ];
}

function difference(name: string, a: readonly number[], b: readonly number[]): string {
  return `- ${name}: ${interval(a, b)}`;
}

function interval(a: readonly number[], b: readonly number[]): string {
  const { mean, low, high } = pairedBootstrap(a, b);
  const [signed, from, to] = [mean, low, high].map((value) => `${value < 0 ? '−' : '+'}${Math.abs(value).toFixed(4)}`);
  return `${signed} (95 % interval ${from} to ${to})`;
}
