import { cpus } from 'node:os';
import { createEmbedder } from '../../src/adapters/models/embedder.ts';
import { createModelCatalog } from '../../src/adapters/models/model-catalog.ts';
import { createTokenCounter } from '../../src/adapters/text/token-counter.ts';
import { cosineSimilarity } from '../../src/domain/alignment/score.ts';
import type { ListedModel } from '../../src/ports/models.ts';
import { startMeasuredServer } from '../embed/measured-server.ts';
import { report } from '../report.ts';
import { average } from './bootstrap.ts';
import { readCranfield } from './cranfield.ts';
import { ndcg } from './metrics.ts';
import { readXquadCollection, xquadLanguages } from './xquad.ts';

type Collection = {
  name: string;
  passages: { id: string; text: string }[];
  queries: { text: string; relevant: ReadonlySet<string> }[];
};

type Measured = { collection: string; model: string; ndcg: number; passagesPerSecond: number };

/**
 * Ranks all passages of a collection by the cosine of their vectors to the question's, as the vector leg does. Measures
 * each packaged embedding model that is installed.
 */
export async function measureEmbeddingModels(toolsDir: string): Promise<Measured[]> {
  const server = await startMeasuredServer({ toolsDir, threads: cpus().length });
  try {
    const endpoint = { baseUrl: server.baseUrl, apiKey: 'local' };
    const models = (await createModelCatalog(endpoint).list()).filter(({ kind }) => kind === 'embedding');
    const measured: Measured[] = [];
    for (const collection of [cranfield(), ...xquadLanguages.map(xquad)]) {
      for (const model of models) measured.push(await measure(collection, model, endpoint));
    }
    return measured;
  } finally {
    await server.stop();
  }
}

async function measure(
  { name, passages, queries }: Collection,
  { id: model, queryPrefix }: ListedModel,
  endpoint: { baseUrl: string; apiKey: string },
): Promise<Measured> {
  const tokenCounter = createTokenCounter();
  const embedder = createEmbedder({ ...endpoint, model, estimateTokens: (text) => tokenCounter.count(text) });
  const embed = (texts: readonly string[]) => embedder.embed(texts, { isBulk: true });
  // The first call loads the model.
  await embed(['.']);
  const startedAt = performance.now();
  const vectors = await embed(passages.map(({ text }) => text));
  const passagesPerSecond = passages.length / ((performance.now() - startedAt) / 1000);
  const asked = await embed(queries.map(({ text }) => `${queryPrefix ?? ''}${text}`));
  const scores = queries.map(({ relevant }, index) => {
    const query = asked[index] ?? new Float32Array();
    const ranking = passages
      .map(({ id }, place) => ({ id, similarity: cosineSimilarity(vectors[place] ?? new Float32Array(), query) }))
      .sort((a, b) => b.similarity - a.similarity);
    return ndcg(
      ranking.slice(0, 10).map(({ id }) => id),
      relevant,
      10,
    );
  });
  return { collection: name, model, ndcg: average(scores), passagesPerSecond };
}

function cranfield(): Collection {
  const { documents, queries } = readCranfield();
  return { name: 'Cranfield, en', passages: documents, queries };
}

function xquad(language: (typeof xquadLanguages)[number]): Collection {
  const { paragraphs, questions } = readXquadCollection(language);
  return { name: `XQuAD, ${language}`, passages: paragraphs, queries: questions };
}

/** @returns lines of a Markdown table */
export function reportEmbeddingModels(measured: readonly Measured[]): string[] {
  for (const { collection, model, ndcg } of measured) {
    report({ goal: 'retrieval', what: `${collection}, vectors of ${model}`, unit: 'nDCG@10', rounds: ndcg });
  }
  return [
    '| | model | nDCG@10 | passages a second |',
    '|---|---|---|---|',
    ...measured.map(
      ({ collection, model, ndcg, passagesPerSecond }) =>
        `| ${collection} | ${model} | ${ndcg.toFixed(4)} | ${passagesPerSecond.toFixed(1)} |`,
    ),
  ];
}
