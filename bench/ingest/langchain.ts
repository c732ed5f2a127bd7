import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type MeasuredProduct, startProduct } from '../measured-product.ts';
import { median } from '../median.ts';
import manifest from '../package.json' with { type: 'json' };
import { realDocuments } from '../pdf/real-documents.ts';
import { report as reportFigure, roundsOf } from '../report.ts';
import { createPdf } from './big-pdf.ts';
import { readManyTexts } from './corpus.ts';
import { type FixedEmbedder, startFixedEmbedder } from './fixed-embedder.ts';
import type { ScriptFigures } from './langchain-script.ts';

const linesPerPage = 50;
const documentSets = [
  { documents: 24, minPages: 10 },
  { documents: 4, minPages: 100 },
];
const goals = { wall: 1 / 3, cpu: 1 / 4 };
const counted = ['api', 'worker', 'temporal', 'postgres'] as const;

type DocumentSet = (typeof documentSets)[number];
type Cpu = Record<(typeof counted)[number], number>;
type Ours = { ms: number; cpu: Cpu; chunks: number };
type Round = { ours: Ours; its: ScriptFigures & { postgresCpuMs: number }; load: number };

const run = promisify(execFile);

/**
 * P3: ingests PDFs through the product and through a LangChain.js script, in alternating rounds; both use the same fake
 * embedding provider.
 */
export async function measureBesideLangChain(sets = documentSets, roundCount = roundsOf(5)): Promise<string[]> {
  const folder = await mkdtemp(join(tmpdir(), 'bench-langchain-'));
  const embedder = await startFixedEmbedder();
  try {
    const product = await startProduct({
      OPENAI_BASE_URL: embedder.baseUrl,
      OPENAI_API_KEY: 'local',
      EMBEDDING_MODEL: embedder.model,
      ALIGNMENT_EMBEDDING_BASE_URL: embedder.baseUrl,
    });
    try {
      const lines: string[] = [];
      for (const set of sets) {
        const path = await writeDocuments(folder, set);
        lines.push(...report(set, await measure(product, embedder, path, roundCount)), '');
      }
      return [...lines, peers()];
    } finally {
      await product.stop();
    }
  } finally {
    await embedder.close();
    await rm(folder, { recursive: true, force: true });
  }
}

/**
 * Writes documents that all differ: each has some generated pages and, if the data sets are installed, ten pages of
 * real documents repeated up to `minPages`.
 */
async function writeDocuments(folder: string, { documents, minPages }: DocumentSet): Promise<string> {
  const target = join(folder, `${documents}-documents`);
  await mkdir(target);
  const merge = join(import.meta.dirname, '..', 'pdf', 'merge.py');
  const ownPages = join(folder, 'own-pages.pdf');
  for (const [index, text] of readManyTexts(documents).entries()) {
    const lines = text.match(/.{1,90}(?:\s|$)/g) ?? [];
    const pages = Array.from({ length: Math.ceil(lines.length / linesPerPage) }, (_, page) =>
      lines.slice(page * linesPerPage, (page + 1) * linesPerPage),
    );
    await writeFile(ownPages, createPdf(pages));
    const merged = join(target, `document-${index}.pdf`);
    const files = [ownPages, ...realDocuments()];
    await run('python3', ['-I', merge, process.env.TOOLS_DIR ?? '', String(minPages), merged, ...files]);
  }
  return target;
}

async function measure(product: MeasuredProduct, embedder: FixedEmbedder, folder: string, roundCount: number) {
  const rounds: Round[] = [];
  for (let round = -1; round < roundCount; round += 1) {
    const [load = Number.NaN] = loadavg();
    const ours = await ingest(product, embedder, folder);
    const its = await askScript(product, embedder, folder);
    if (round >= 0) rounds.push({ ours, its, load });
  }
  return rounds;
}

/** Ingests in a new organization, so that no cached embedding is reused. */
async function ingest(product: MeasuredProduct, embedder: FixedEmbedder, folder: string): Promise<Ours> {
  const names = await readdir(folder);
  const files = await Promise.all(
    names.map(async (name) => ({ name, content: new Uint8Array(await readFile(join(folder, name))) })),
  );
  const api = await product.signUp();
  const [cpuBefore, textsBefore] = [await readCpu(product), embedder.textCount()];
  const startedAt = performance.now();
  const uploads = await Promise.all(files.map(({ name, content }) => product.upload(api, name, content)));
  for (const { runId } of uploads) await product.untilDone(runId);
  const ms = performance.now() - startedAt;
  const cpu = await readCpu(product);
  for (const name of counted) cpu[name] -= cpuBefore[name];
  return { ms, cpu, chunks: embedder.textCount() - textsBefore };
}

async function askScript(product: MeasuredProduct, embedder: FixedEmbedder, folder: string): Promise<Round['its']> {
  const env = {
    ...process.env,
    DATABASE_URL: product.environment.DATABASE_URL,
    OPENAI_BASE_URL: embedder.baseUrl,
    EMBEDDING_MODEL: embedder.model,
  };
  const before = await product.cpuMs('postgres');
  const { stdout } = await run(process.execPath, [join(import.meta.dirname, 'langchain-script.ts'), folder], { env });
  const postgresCpuMs = (await product.cpuMs('postgres')) - before;
  const figures: ScriptFigures = JSON.parse(stdout.trim().split('\n').at(-1) ?? '');
  return { ...figures, postgresCpuMs };
}

async function readCpu(product: MeasuredProduct): Promise<Cpu> {
  const [api, worker, temporal, postgres] = await Promise.all(counted.map((name) => product.cpuMs(name)));
  return { api: api ?? 0, worker: worker ?? 0, temporal: temporal ?? 0, postgres: postgres ?? 0 };
}

function report({ documents }: DocumentSet, rounds: Round[]): string[] {
  const own = ({ ours: { cpu } }: Round) => cpu.api + cpu.worker;
  const seconds = (of: (round: Round) => number) => (median(rounds.map(of)) / 1_000).toFixed(1);
  const row = (name: string, ours: (round: Round) => number, its: (round: Round) => number, goal: number) => {
    const ratios = rounds.map((round) => ours(round) / its(round));
    const ratio = median(ratios);
    reportFigure({
      ...{ goal: 'P3', what: `${documents} PDFs of ${rounds[0]?.its.pages} pages: ${name}`, unit: 's' },
      ...{ rounds: rounds.map((round) => ours(round) / 1_000), peer: 'a LangChain.js script', ratios, atMost: goal },
    });
    return `| ${name} | ${seconds(ours)} | ${seconds(its)} | ${ratio.toFixed(2)} | ${goal.toFixed(2)} |`;
  };
  const [first] = rounds;
  return [
    `P3: ${documents} PDFs of ${first?.its.pages} pages, ${first?.ours.chunks} chunks (the script's: ${first?.its.chunks}), ` +
      `${rounds.length} rounds in turns, medians; load ${rounds.map(({ load }) => load.toFixed(1)).join(', ')}`,
    '',
    '| seconds | ours | the script | ours / its | goal |',
    '|---|---|---|---|---|',
    row(
      'wall time, first upload to all searchable',
      ({ ours }) => ours.ms,
      ({ its }) => its.ms,
      goals.wall,
    ),
    row('processor time of API, worker and parsers', own, ({ its }) => its.cpuMs, goals.cpu),
    row(
      'the same with Temporal',
      (round) => own(round) + round.ours.cpu.temporal,
      ({ its }) => its.cpuMs,
      goals.cpu,
    ),
    row(
      'the same with Temporal and Postgres',
      (round) => own(round) + round.ours.cpu.temporal + round.ours.cpu.postgres,
      ({ its }) => its.cpuMs + its.postgresCpuMs,
      goals.cpu,
    ),
    '',
    '| processor time, seconds | |',
    '|---|---|',
    ...counted.map((name) => `| ${name} | ${seconds(({ ours }) => ours.cpu[name])} |`),
    `| postgres, by the script, with one document to warm up | ${seconds(({ its }) => its.postgresCpuMs)} |`,
  ];
}

function peers(): string {
  const names = ['unpdf', '@langchain/textsplitters', 'js-tiktoken'] as const;
  return `The script: ${names.map((name) => `${name} ${manifest.devDependencies[name]}`).join(', ')}`;
}
