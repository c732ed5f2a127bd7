/**
 * Fits the alignment calibration of an embedding model on CLINC150 and prints it with its quality. Ten domains are ten
 * agents; an agent's anchors come from the names of its intents only; its positives are the test utterances of its
 * domain, its negatives those of the nine others and the out-of-scope ones. Coefficients are fitted with one domain
 * left out and judged on that one.
 *
 * `node scripts/fit-alignment.ts`, with DATASETS_DIR, ALIGNMENT_EMBEDDING_BASE_URL and ALIGNMENT_EMBEDDING_MODEL.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createTextAnalyzer } from '#src/adapters/text/text-analyzer.ts';
import { type Anchor, lexicalMatch, semanticMatch } from '#src/domain/alignment-score.ts';
import { areaUnderCurve, calibrationError, fitLogistic, type Sample, sigmoid } from './logistic-regression.ts';

const folder = join(process.env.DATASETS_DIR ?? '../shared/datasets', 'clinc150');
const baseUrl = process.env.ALIGNMENT_EMBEDDING_BASE_URL ?? 'http://127.0.0.1:3290/v1';
const model = process.env.ALIGNMENT_EMBEDDING_MODEL ?? 'all-minilm-l6-v2-int8-r2';
const analyze = createTextAnalyzer();
const stemsOf = (text: string) => analyze(text).map((term) => term.stem);

type Labelled = [text: string, intent: string];
const domains: Record<string, string[]> = JSON.parse(await readFile(join(folder, 'domains.json'), 'utf8'));
const data: { test: Labelled[]; oos_test: Labelled[] } = JSON.parse(
  await readFile(join(folder, 'data_full.json'), 'utf8'),
);

async function embed(texts: readonly string[]): Promise<Float32Array[]> {
  const vectors: Float32Array[] = [];
  for (let start = 0; start < texts.length; start += 128) {
    const response = await fetch(`${baseUrl}/embeddings`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model, input: texts.slice(start, start + 128), encoding_format: 'float' }),
    });
    if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
    const answer: { data: { embedding: number[] }[] } = JSON.parse(await response.text());
    vectors.push(...answer.data.map((item) => Float32Array.from(item.embedding)));
  }
  return vectors;
}

/** Names of up to three words as phrases, and each of their words that carries meaning. */
function anchorWords(intents: readonly string[]): string[] {
  const names = intents.map((intent) => intent.replaceAll('_', ' '));
  const phrases = names.filter((name) => name.split(' ').length <= 3);
  const words = names.flatMap((name) =>
    name.split(' ').filter((word) => analyze(word).some((term) => !term.isStopWord)),
  );
  return [...new Map([...phrases, ...words].map((word) => [stemsOf(word).join(' '), word])).values()];
}

const texts = [...data.test, ...data.oos_test].map(([text, intent]) => ({ text, intent, stems: stemsOf(text) }));
const vectors = await embed(texts.map(({ text }) => text));

type Agent = { name: string; anchors: number; samples: (Sample & { isOutOfScope: boolean })[] };
const agents: Agent[] = [];
for (const [name, intents] of Object.entries(domains)) {
  const words = anchorWords(intents);
  const anchorVectors = await embed(words);
  const anchors: Anchor[] = words.map((word, index) => ({
    stems: stemsOf(word),
    weight: 5,
    vector: anchorVectors[index] ?? null,
  }));
  const samples = texts.map(({ intent, stems }, index) => {
    const vector = vectors[index];
    const semantic = vector ? (semanticMatch(vector, anchors) ?? 0) : 0;
    const features = [semantic, lexicalMatch(stems, anchors)];
    return { features, isPositive: intents.includes(intent), isOutOfScope: intent === 'oos' };
  });
  agents.push({ name, anchors: anchors.length, samples });
}

report('semantic and lexical', (sample) => sample.features);
report('semantic', (sample) => sample.features.slice(0, 1));
report('lexical', (sample) => sample.features.slice(1));

function report(title: string, pick: (sample: Sample) => readonly number[]): void {
  const narrowed = agents.map((agent) => ({
    ...agent,
    samples: agent.samples.map((sample) => ({ ...sample, features: pick(sample) })),
  }));
  console.log(`\n${title} (${model})`);
  const folds = narrowed.map((held) => {
    const coefficients = fitLogistic(narrowed.filter((agent) => agent !== held).flatMap((agent) => agent.samples));
    const scored = held.samples.map((sample) => ({ ...sample, score: sigmoid(coefficients, sample.features) }));
    const auc = areaUnderCurve(scored);
    const oosAuc = areaUnderCurve(scored.filter((sample) => sample.isPositive || sample.isOutOfScope));
    console.log(
      `  ${held.name.padEnd(20)} ${String(held.anchors).padStart(3)} anchors  AUC ${auc.toFixed(3)}  against out-of-scope ${oosAuc.toFixed(3)}`,
    );
    return { coefficients, scored, auc, oosAuc };
  });
  const all = folds.flatMap((fold) => fold.scored);
  const rate = (isPositive: boolean) => {
    const group = all.filter((sample) => sample.isPositive === isPositive);
    return group.filter((sample) => sample.score >= 0.5).length / group.length;
  };
  const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const final = fitLogistic(narrowed.flatMap((agent) => agent.samples));
  const spread = final.map((_, i) => {
    const values = folds.map((fold) => fold.coefficients[i] ?? 0);
    return Math.sqrt(mean(values.map((value) => (value - mean(values)) ** 2)));
  });
  console.log(
    `  mean AUC ${mean(folds.map((fold) => fold.auc)).toFixed(4)}, worst ${Math.min(...folds.map((fold) => fold.auc)).toFixed(3)}, against out-of-scope ${mean(folds.map((fold) => fold.oosAuc)).toFixed(3)}`,
  );
  console.log(
    `  at 0.5: TPR ${rate(true).toFixed(3)}, FPR ${rate(false).toFixed(3)}; class-balanced ECE ${calibrationError(all).toFixed(3)}`,
  );
  console.log(
    `  coefficients (intercept last) ${final.map((value) => value.toFixed(2)).join(' ')}, sd over folds ${spread.map((value) => value.toFixed(2)).join(' ')}`,
  );
}
