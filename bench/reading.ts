// `npm run bench:reading [-- --write] [-- FILE…]` reads 60 unusual files with the converter and with the usual program for
// their kind, and compares both with the text that is known to be in them. `--write` writes the table into
// docs/benchmarks.md. A peer that is not installed leaves its column empty.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { createConverter } from '../src/adapters/converter/converter.ts';
import { createParserSandbox } from '../src/adapters/parser-sandbox.ts';
import { replaceSections } from './costs/sections.ts';
import { type Likeness, likenessOf } from './reading/likeness.ts';
import { readByPeer } from './reading/peers.ts';
import { absentWordsIn, readUnusualFiles, type UnusualFile } from './reading/unusual-files.ts';
import { report } from './report.ts';

type Reading = { file: UnusualFile; own: Likeness; failure: string; peer: (Likeness & { name: string }) | null };

/** Below this share of the peer, or of the text itself, a file needs a reason. */
const share = 0.95;

const { values, positionals } = parseArgs({ options: { write: { type: 'boolean' } }, allowPositionals: true });
const files = readUnusualFiles().filter(({ name }) => positionals.length === 0 || positionals.includes(name));
const folder = await mkdtemp(join(tmpdir(), 'bench-reading-'));
const readings: Reading[] = [];
try {
  const toolsDir = process.env.TOOLS_DIR ?? '';
  const converter = createConverter({ sandbox: createParserSandbox('auto'), toolsDir, tempDir: folder });
  const { signal } = new AbortController();
  const recognition = { known: [], sliceMs: 60_000, keep: async () => undefined };
  for (const file of files) {
    const { name: fileName, path, text } = file;
    const read = async () => {
      const format = await converter.detect({ path, fileName });
      return (await converter.convert({ orgId: 'bench', path, fileName, format, signal, recognition })).body;
    };
    const result = await read().catch((error: unknown) => Object(error));
    const body = typeof result === 'string' ? result : '';
    const shown = absentWordsIn(body, file);
    const failure =
      typeof result !== 'string' ? `${result.code ?? result}` : shown.map((word) => `reads ${word}`).join(', ');
    const other = await readByPeer(fileName, path);
    const peer = other && { name: other.peer, ...likenessOf(text, other.text) };
    readings.push({ file, own: likenessOf(text, body), failure, peer });
    if (positionals.length > 0) console.log(`${body}\n\n--- ${other?.peer}\n${other?.text}\n`);
  }
} finally {
  await rm(folder, { recursive: true, force: true });
}

const isAsGood = ({ own, peer, failure }: Reading) =>
  failure === '' && own.recall >= share * (peer?.recall ?? 1) && own.order >= share * (peer?.order ?? 1);
const isComplete = ({ own, failure }: Reading) => failure === '' && own.recall >= share && own.order >= share;
const compared = readings.filter(({ peer }) => peer !== null);
for (const [what, counted, good] of [
  ['unusual files of which at least 95 % of the words are read, in their order', readings, isComplete],
  ['the same: at least 95 % of what pdftotext, Tesseract, pandoc or antiword reads', compared, isAsGood],
] as const) {
  const unit = `of ${counted.length}`;
  report({ goal: 'reading', what, unit, rounds: counted.filter(good).length, atLeast: counted.length });
}
const number = (value: number) => value.toFixed(2);
const figures = (value: Likeness | null) => (value === null ? ['', ''] : [number(value.recall), number(value.order)]);
const table = [
  '| File | What it is | Recall | Order | Peer | Recall | Order | Below |',
  '|---|---|---|---|---|---|---|---|',
  ...readings.map((reading) => {
    const { file, own, peer, failure } = reading;
    const reason = isAsGood(reading) && isComplete(reading) ? '' : [failure, file.reason].filter(Boolean).join(': ');
    const isUnexplained = reason === '' && !isComplete(reading);
    const cells = [...figures(own), peer?.name ?? '', ...figures(peer), isUnexplained ? '**no reason known**' : reason];
    return `| ${[`\`${file.name}\``, file.what, ...cells].join(' | ')} |`;
  }),
];
console.log(`\n${table.join('\n')}`);
for (const { file } of readings.filter((reading) => isComplete(reading) && reading.file.reason !== null)) {
  console.log(`reasons.json need not name ${file.name} any more.`);
}
if (values.write && positionals.length === 0) {
  await replaceSections('docs/benchmarks.md', { 'npm run bench:reading': table });
}
