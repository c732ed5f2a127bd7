// `npm run bench:embed` compares the model server with onnxruntime in Python on the same texts, in alternating rounds.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import onnxruntime from 'onnxruntime-node/package.json' with { type: 'json' };
import { quantizeGraph } from '../services/model-server/embedding/quantized-graph.ts';
import { verifiedModelFile } from '../services/model-server/model-files.ts';
import { miniLm } from '../services/model-server/model-manifest.ts';
import { createEmbedder } from '../src/adapters/models/embedder.ts';
import { createTokenCounter } from '../src/adapters/text/token-counter.ts';
import { type Lag, type MeasuredServer, startMeasuredServer } from './embed/measured-server.ts';
import { installPeer, type PeerMode, type PythonPeer, peerModes, startPeer } from './embed/python-peer.ts';
import { median } from './median.ts';
import { report as reportFigure, reportSkipped, roundsOf } from './report.ts';

const rounds = roundsOf(7);
const textsOfLength = 120;
const cores = cpus().length;
const goals = { ratio: 0.95, lagP99Ms: 20 };

/** A Python peer with its fastest mode on this machine; `rates` holds tokens per second, one for each round. */
type Rival = { name: string; peer: PythonPeer; way: PeerMode; rates: number[]; cosines: number[] };

const toolsDir = process.env.TOOLS_DIR;
if (!toolsDir) throw new Error('TOOLS_DIR is not set: run it as `npm run bench:embed`.');

const texts = passages();
const server = await startMeasuredServer({ toolsDir, threads: cores });
const rivals: Rival[] = [];
try {
  await startRivals(toolsDir);
  await measure(server);
} finally {
  await Promise.all([server.stop(), ...rivals.map(({ peer }) => peer.stop())]);
}

/** Pieces of the documentation in several lengths, evenly spread and without tables, all within the model's window. */
function passages(): string[] {
  const folder = join(import.meta.dirname, '..', 'docs');
  const pages = readdirSync(folder).filter((name) => name.endsWith('.md'));
  const lines = pages.flatMap((name) => readFileSync(join(folder, name), 'utf8').split('\n'));
  // Python reads "[SEP]" as a special token, the server as characters; pieces of tables can be longer than the window.
  const text = lines
    .filter((line) => /^[A-Z]/.test(line))
    .join('\n')
    .replaceAll(/[[\]]/g, '');
  return [80, 200, 400, 600].flatMap((length) => {
    const step = text.length / textsOfLength;
    return Array.from({ length: textsOfLength }, (_, index) => text.slice(index * step, index * step + length));
  });
}

/**
 * Starts peers with the original and with the rewritten graph, because the rewrite explains part of the server's lead.
 * Starts none if Python lacks onnxruntime.
 */
async function startRivals(toolsDir: string): Promise<void> {
  const folder = installPeer();
  if (folder === null) return reportSkipped('the embedder beside Python: onnxruntime for Python is not installed');
  const models = { modelDir: null, toolsDir };
  const shipped = await verifiedModelFile(miniLm.graph, models);
  const tokenizerPath = await verifiedModelFile(miniLm.tokenizer, models);
  const draft = mkdtempSync(join(tmpdir(), 'bench-embed-'));
  try {
    const rewritten = join(draft, 'rewritten.onnx');
    writeFileSync(rewritten, quantizeGraph(readFileSync(shipped), miniLm.precision).model);
    for (const [name, modelPath] of [
      ['Python with the file as shipped', shipped],
      ['Python with our rewritten graph', rewritten],
    ] as const) {
      const peer = await startPeer({ folder, modelPath, tokenizerPath, cores });
      rivals.push({ name, peer, way: await fastestWay(peer), rates: [], cosines: [] });
    }
  } finally {
    rmSync(draft, { recursive: true });
  }
}

async function fastestWay(peer: PythonPeer): Promise<PeerMode> {
  const timed: { way: PeerMode; seconds: number }[] = [];
  for (const way of peerModes) {
    await peer.embed(texts.slice(0, 100), way);
    timed.push({ way, seconds: (await peer.embed(texts, way)).seconds });
  }
  return timed.reduce((best, next) => (next.seconds < best.seconds ? next : best)).way;
}

async function measure({ baseUrl, lagDuring }: MeasuredServer): Promise<void> {
  const tokenCounter = createTokenCounter();
  const embedder = createEmbedder({
    ...{ baseUrl, apiKey: 'local', model: miniLm.id },
    estimateTokens: (text) => tokenCounter.count(text),
  });
  const embed = () => embedder.embed(texts, { isBulk: true });
  const vectors = await embed();
  const tokens = await countTokens(baseUrl);
  const ours: number[] = [];
  const lags: Lag[] = [];

  for (let round = 0; round < rounds; round += 1) {
    const startedAt = performance.now();
    const { lag } = await lagDuring(embed);
    ours.push(tokens / ((performance.now() - startedAt) / 1000));
    lags.push(lag);
    for (const rival of rivals) {
      const run = await rival.peer.embed(texts, rival.way);
      if (run.tokens !== tokens)
        throw new Error(`Token counts differ: Python peer ${run.tokens}, model server ${tokens}.`);
      rival.rates.push(run.tokens / run.seconds);
      rival.cosines = cosines(vectors, run.vectors);
    }
  }
  report(tokens, ours, lags);
}

async function countTokens(baseUrl: string): Promise<number> {
  const response = await fetch(`${baseUrl}/embeddings`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: miniLm.id, input: texts }),
  });
  return ((await response.json()) as { usage: { total_tokens: number } }).usage.total_tokens;
}

function cosines(own: readonly Float32Array[], theirs: Float32Array): number[] {
  return own.map((vector, row) =>
    vector.reduce((sum, value, column) => sum + value * (theirs[row * vector.length + column] ?? 0), 0),
  );
}

function report(tokens: number, ours: readonly number[], lags: readonly Lag[]): void {
  const lines = rivals.map(({ name, way, rates, cosines }) => {
    const ratios = ours.map((rate, round) => rate / (rates[round] ?? Number.NaN));
    const ratio = median(ratios);
    reportFigure({
      ...{ goal: 'embed', what: 'the model server, through HTTP', unit: 'tokens/s', rounds: ours },
      ...{ peer: name, ratios, atLeast: goals.ratio },
    });
    const cosine = `${Math.min(...cosines).toFixed(4)} / ${median(cosines).toFixed(4)}`;
    return `| ${name} (${way}) | ${Math.round(median(rates))} | ${ratio.toFixed(2)} | ${cosine} |`;
  });
  const versions = {
    node: process.versions.node,
    'onnxruntime-node': onnxruntime.version,
    ...rivals[0]?.peer.versions,
  };
  console.log(
    [
      `${texts.length} texts, ${tokens} tokens, ${rounds} rounds in turns, medians`,
      '',
      '| | tokens/s | ours / its (per round) | cosine to ours, min / median |',
      '|---|---|---|---|',
      `| our server, with HTTP and our client | ${Math.round(median(ours))} | | |`,
      ...(lines.length > 0 ? lines : ['| 1 skipped: onnxruntime for Python | | | |']),
      '',
      `Goal: a ratio of at least ${goals.ratio}.`,
      `Lag of the HTTP thread: p99 ${median(lags.map(({ p99Ms }) => p99Ms)).toFixed(1)} ms; goal: under ${goals.lagP99Ms} ms.`,
      Object.entries(versions)
        .map(([name, version]) => `${name} ${version}`)
        .join(', '),
      `${cpus()[0]?.model ?? 'unknown CPU'}, ${cores} cores, ${process.platform} ${process.arch}`,
    ].join('\n'),
  );
}
