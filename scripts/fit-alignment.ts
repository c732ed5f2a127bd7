/**
 * Fits the scoring models of alignment for one embedding model: the topic calibration on CLINC150
 * (src/domain/alignment/calibrations.json) and the refusal classifier on XSTest (refusal-weights.json). The files also
 * record the hashes of the data sets and the cross-validated quality. The same data give the same files; a new fit
 * needs a new version in this script, because versions are stored with every scored round. Run `node
 * scripts/fit-alignment.ts` with DATASETS_DIR, ALIGNMENT_EMBEDDING_BASE_URL and ALIGNMENT_EMBEDDING_MODEL.
 */
import { createHash } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { createTextAnalyzer } from '#src/adapters/text/text-analyzer.ts';
import { readClinc } from './alignment/clinc.ts';
import { createEmbedTexts } from './alignment/embed-texts.ts';
import { fitRefusal, leaveOneModelOut } from './alignment/fitted-refusal.ts';
import { fitTopic } from './alignment/fitted-topic.ts';
import { refusalQuality } from './alignment/refusal-quality.ts';
import { readXsTest } from './alignment/xstest.ts';

const versions = { topic: 'clinc150-2', refusal: 'xstest-1' };

const modelId = process.env.ALIGNMENT_EMBEDDING_MODEL ?? 'all-minilm-l6-v2-int8-r2';
const embed = createEmbedTexts({
  baseUrl: process.env.ALIGNMENT_EMBEDDING_BASE_URL ?? 'http://127.0.0.1:3290/v1',
  model: modelId,
});
const folder = new URL('../src/domain/alignment/', import.meta.url);

await fitCalibration();
await fitRefusals();

async function fitCalibration(): Promise<void> {
  const { agents, sources } = await readClinc(embed);
  const [probe] = await embed(['probe']);
  const both = fitTopic(agents, ({ semantic, lexical }) => [semantic, lexical]);
  const words = fitTopic(agents, ({ lexical }) => [lexical]);
  const [semantic = 0, lexical = 0, intercept = 0] = both.coefficients;
  const spreadOf = (place: number) => both.spread[place] ?? 0;
  const [lexicalAlone = 0, interceptAlone = 0] = words.coefficients;
  const calibration = {
    modelId,
    dimensions: probe?.length ?? 0,
    version: versions.topic,
    semantic,
    lexical,
    intercept,
    lexicalOnly: { lexical: lexicalAlone, intercept: interceptAlone },
    spread: shorten({ semantic: spreadOf(0), lexical: spreadOf(1), intercept: spreadOf(2) }),
    quality: shorten(both.quality),
    qualityOfWords: shorten(words.quality),
    sources: [...sources, await recordOf('idf-table.json')],
  };
  const target = new URL('calibrations.json', folder);
  const others = (JSON.parse(await readFile(target, 'utf8').catch(() => '[]')) as { modelId: string }[]).filter(
    (each) => each.modelId !== modelId,
  );
  await writeFile(target, `${JSON.stringify([...others, calibration], null, 2)}\n`);
  console.log(calibration);
}

async function fitRefusals(): Promise<void> {
  const analyze = createTextAnalyzer();
  const { replies, sources } = readXsTest();
  const vectors = await embed(replies.map(({ reply }) => (reply.trim() === '' ? '.' : reply)));
  const embedded = replies.map((each, i) => ({ ...each, vector: vectors[i] ?? new Float32Array() }));
  const scores = leaveOneModelOut(embedded, analyze);
  const quality = {
    withEmbedding: shorten(refusalQuality(embedded, (_, i) => scores[i]?.withEmbedding ?? 0)),
    byWords: shorten(refusalQuality(embedded, (_, i) => scores[i]?.byWords ?? 0)),
  };
  const { grams, rarity, weights, weightsOfWords } = fitRefusal(embedded, analyze);
  const about =
    'A logistic regression over the first words of a reply, its phrases and its embedding, and one without the embedding. Written by scripts/fit-alignment.ts.';
  const lines = Object.entries({
    about,
    version: versions.refusal,
    modelId,
    sources,
    replies: replies.length,
    quality,
    grams,
    rarity,
    weights,
    weightsOfWords,
  }).map(([name, value]) => ` ${JSON.stringify(name)}: ${JSON.stringify(value)}`);
  await writeFile(new URL('refusal-weights.json', folder), `{\n${lines.join(',\n')}\n}\n`);
  console.log({ grams: grams.length, ...quality });
}

async function recordOf(name: string) {
  const text = await readFile(new URL(name, folder), 'utf8');
  return { path: `src/domain/${name}`, sha256: createHash('sha256').update(text).digest('hex') };
}

/** Rounds the metrics to four decimals, so that floating-point noise does not change the files. */
function shorten<Quality extends object>(quality: Quality): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(quality).map(([name, value]) => [name, typeof value === 'number' ? shortened(value) : value]),
  );
}

function shortened(value: number): number {
  return Number(value.toFixed(4));
}
