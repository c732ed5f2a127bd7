// `npm run bench:pdf` compares the text extraction of the converter with unpdf, in pages per CPU-second and memory
// (P2).
import { execFile } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { cpus, loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { createConverter } from '../src/adapters/converter/converter.ts';
import { createParserSandbox } from '../src/adapters/parser-sandbox.ts';
import { createPdf } from './ingest/big-pdf.ts';
import { median } from './median.ts';
import { writeLargePdf } from './pdf/large-pdf.ts';
import { realDocuments } from './pdf/real-documents.ts';
import { report, roundsOf } from './report.ts';

const ROUNDS = roundsOf(5);
const PAGES = 600;
const LARGE_PAGES = 300;
const WATCH_EVERY_MS = 5;

type Figures = { pages: number; letters: number; cpuSeconds: number; peakMegabytes: number };

const run = promisify(execFile);
const toolsDir = process.env.TOOLS_DIR ?? '';
const folder = await mkdtemp(join(tmpdir(), 'bench-pdf-'));
/** A new converter has no parser that has read other files. */
const newConverter = () => createConverter({ sandbox: createParserSandbox('auto'), toolsDir, tempDir: folder });
const converter = newConverter();
try {
  const { path, what } = await writeManyPages();
  const rounds = [];
  for (let round = 0; round < ROUNDS; round += 1) rounds.push({ ours: await convert(path), its: await askPeer(path) });
  const rate = ({ pages, cpuSeconds }: Figures) => pages / cpuSeconds;
  const ratios = rounds.map(({ ours, its }) => rate(ours) / rate(its));
  const ratio = median(ratios);
  report({
    ...{ goal: 'P2', what: `text of PDFs: ${what}`, unit: 'pages per CPU-second', peer: 'unpdf' },
    ...{ rounds: rounds.map(({ ours }) => rate(ours)), ratios, atLeast: 2.5 },
  });
  const row = (name: string, all: Figures[]) =>
    `| ${name} | ${median(all.map(rate)).toFixed(0)} | ${all[0]?.pages} | ${all[0]?.letters} |`;
  console.log(
    `\n${what}, ${ROUNDS} rounds in turns, medians\n\n| | pages per CPU-second | pages | letters |\n|---|---|---|---|`,
  );
  console.log(
    [
      row(
        'ours',
        rounds.map(({ ours }) => ours),
      ),
      row(
        'unpdf',
        rounds.map(({ its }) => its),
      ),
    ].join('\n'),
  );
  console.log(`\nProduct / unpdf: ${ratio.toFixed(2)} (goal: at least 2.5)`);

  const small = join(folder, 'small.pdf');
  const large = join(folder, 'large.pdf');
  await writeLargePdf(small, 1);
  await writeLargePdf(large, LARGE_PAGES);
  await convert(small, newConverter());
  const one = await watched(() => convert(small, newConverter()));
  const all = await watched(() => convert(large, newConverter()));
  const peer = await askPeer(large);
  const megabytes = Math.round((await stat(large)).size / 1e6);
  for (const [name, grown] of [
    ['parser child', all.child - one.child],
    ['parent process', all.own - one.own],
  ] as const) {
    const what = `a PDF of ${megabytes} MB: growth of the ${name}, beside a PDF of one page`;
    report({ goal: 'P2', what, unit: 'MB', rounds: Math.max(0, grown), atMost: 64 });
  }
  console.log(`\n${megabytes} MB, compared with a PDF of one of its pages\n\n| | peak memory grows by |\n|---|---|`);
  console.log(`| parser child | ${Math.max(0, all.child - one.child).toFixed(0)} MB |`);
  console.log(`| parent process | ${Math.max(0, all.own - one.own).toFixed(0)} MB |`);
  console.log(`| unpdf, whole process | ${peer.peakMegabytes.toFixed(0)} MB |`);
  console.log(
    `\nnode ${process.versions.node}, ${cpus()[0]?.model ?? 'unknown CPU'}, load ${loadavg()[0]?.toFixed(1)}`,
  );
} finally {
  await rm(folder, { recursive: true, force: true });
}

/** Repeats real documents if they are installed, otherwise plain pages. */
async function writeManyPages(): Promise<{ path: string; what: string }> {
  const path = join(folder, 'many.pdf');
  const files = realDocuments();
  if (files.length > 0) {
    const script = join(import.meta.dirname, 'pdf/merge.py');
    await run('python3', ['-I', script, toolsDir, String(PAGES), path, ...files]);
    return { path, what: `${files.length} real documents, merged again and again` };
  }
  const lines = Array.from(
    { length: 50 },
    (_, line) => `Line ${line} of a page that says little, but says it in words.`,
  );
  await writeFile(path, createPdf(Array.from({ length: PAGES }, () => lines)));
  return { path, what: 'plain pages (there are no real documents here)' };
}

async function convert(path: string, reader = converter): Promise<Figures> {
  const before = await cpuSeconds();
  const source = {
    orgId: 'any',
    path,
    fileName: 'a.pdf',
    format: 'pdf',
    signal: new AbortController().signal,
  } as const;
  const { body, pageCount } = await reader.convert(source);
  const after = await cpuSeconds();
  return { pages: pageCount ?? 0, letters: body.length, cpuSeconds: after - before, peakMegabytes: 0 };
}

async function askPeer(path: string): Promise<Figures> {
  const { stdout } = await run(process.execPath, [join(import.meta.dirname, 'pdf/unpdf-reader.ts'), path]);
  return JSON.parse(stdout.trim().split('\n').at(-1) ?? '');
}

/** CPU time of this process and its children: of those that have ended, and of parsers that wait for another file. */
async function cpuSeconds(): Promise<number> {
  const texts = await Promise.all(['self', ...(await children())].map((pid) => readFile(`/proc/${pid}/stat`, 'utf8')));
  const times = texts.flatMap((text) =>
    text
      .slice(text.lastIndexOf(')') + 2)
      .split(' ')
      .slice(11, 15),
  );
  return times.reduce((sum, ticks) => sum + Number(ticks) / 100, 0);
}

async function children(): Promise<string[]> {
  const tasks = await readdir('/proc/self/task');
  const lists = await Promise.all(
    tasks.map((task) => readFile(`/proc/self/task/${task}/children`, 'utf8').catch(() => '')),
  );
  return lists.join(' ').split(' ').filter(Boolean);
}

/** By how much this process grows while `work` runs, and the peak memory of its children, in MB. */
async function watched(work: () => Promise<unknown>): Promise<{ own: number; child: number }> {
  globalThis.gc?.();
  const ownBefore = process.memoryUsage.rss() / 2 ** 20;
  const earlier = new Set(await children());
  const peaks = { own: 0, child: 0 };
  const watch = setInterval(async () => {
    peaks.own = Math.max(peaks.own, process.memoryUsage.rss() / 2 ** 20 - ownBefore);
    for (const pid of (await children()).filter((child) => !earlier.has(child))) {
      const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
      peaks.child = Math.max(peaks.child, Number(/^VmHWM:\s+(\d+)/m.exec(status)?.[1] ?? 0) / 1_024);
    }
  }, WATCH_EVERY_MS);
  await work();
  clearInterval(watch);
  return peaks;
}
