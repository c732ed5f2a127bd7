// `npm run bench:chunking` compares the product's chunkers with LangChain.js and with a bare tokenizer.
import { cpus } from 'node:os';
import { setInterval } from 'node:timers/promises';
import { RecursiveCharacterTextSplitter } from '@langchain/textsplitters';
import { encode } from 'gpt-tokenizer/encoding/o200k_base';
import { Tiktoken } from 'js-tiktoken/lite';
import o200kBase from 'js-tiktoken/ranks/o200k_base';
import { createChunker } from '../src/adapters/text/chunker.ts';
import { createTextAnalyzer } from '../src/adapters/text/text-analyzer.ts';
import { createTokenCounter } from '../src/adapters/text/token-counter.ts';
import { chunkByTokens } from '../src/domain/documents/chunking.ts';
import type { TokenCounter } from '../src/domain/text/tokens.ts';
import { readCorpus } from './ingest/corpus.ts';
import { median } from './median.ts';
import { report, roundsOf } from './report.ts';

const rounds = roundsOf(7);
const size = { targetTokens: 400, overlapTokens: 60 };
const goals = { langchain: 30, encoding: 0.9 };
const longDocumentWords = 200_000;
const plainText = { allowedSpecial: new Set<string>(), disallowedSpecial: new Set<string>() };

const tiktoken = new Tiktoken(o200kBase);
const splitter = new RecursiveCharacterTextSplitter({
  chunkSize: size.targetTokens,
  chunkOverlap: size.overlapTokens,
  lengthFunction: (text) => tiktoken.encode(text, [], []).length,
});

const corpus = readCorpus();
const counter = createTokenCounter();
const countChunks = (tokens: TokenCounter) =>
  sum(corpus.map((body) => chunkByTokens(body, { method: 'token', ...size }, { tokens }).length));

const contestants = {
  // The product's token counter caches words for the life of the process, as gpt-tokenizer does.
  ours: async () => countChunks(counter),
  newborn: async () => countChunks(createTokenCounter()),
  langchain: async () => {
    let pieces = 0;
    for (const text of corpus) pieces += (await splitter.splitText(text)).length;
    return pieces;
  },
  encoding: async () => sum(corpus.map((text) => encode(text, plainText).length)),
};
type Contestant = keyof typeof contestants;

const times: Record<Contestant, number[]> = { ours: [], newborn: [], langchain: [], encoding: [] };
const counts: Record<Contestant, number> = { ours: 0, newborn: 0, langchain: 0, encoding: 0 };
const names: Contestant[] = ['ours', 'newborn', 'langchain', 'encoding'];
for (let round = -1; round < rounds; round += 1) {
  for (const name of names) {
    const startedAt = performance.now();
    counts[name] = await contestants[name]();
    if (round >= 0) times[name].push(performance.now() - startedAt);
  }
}

const ratios = (peer: Contestant) => times[peer].map((ms, round) => ms / (times.ours[round] ?? Number.NaN));
const ratio = (peer: Contestant) => median(ratios(peer));
const shared = { goal: 'P1', unit: 'ms', rounds: times.ours };
report({
  ...shared,
  ...{ what: `chunking of ${corpus.length} texts, 400/60`, peer: 'LangChain.js with js-tiktoken' },
  ...{ ratios: ratios('langchain'), atLeast: goals.langchain },
});
report({
  ...shared,
  ...{ what: `chunking of ${corpus.length} texts, 400/60`, peer: 'gpt-tokenizer, encoding alone' },
  ...{ ratios: ratios('encoding'), atLeast: goals.encoding },
});
const row = (name: string, of: Contestant, pieces: string, ratioToOurs: string) =>
  `| ${name} | ${median(times[of]).toFixed(1)} | ${pieces} | ${ratioToOurs} |`;
console.log(
  [
    `${corpus.length} texts, ${sum(corpus.map((text) => text.length))} characters, ${counts.encoding} tokens, ${rounds} rounds in turns, medians`,
    '',
    '| | ms | chunks | its time / ours (goal) |',
    '|---|---|---|---|',
    row('chunkByTokens, 400/60', 'ours', String(counts.ours), ''),
    row(
      'the same by a process that has seen no word before',
      'newborn',
      String(counts.newborn),
      ratio('newborn').toFixed(2),
    ),
    row(
      'RecursiveCharacterTextSplitter with js-tiktoken, 400/60',
      'langchain',
      String(counts.langchain),
      `${ratio('langchain').toFixed(1)} (${goals.langchain})`,
    ),
    row('gpt-tokenizer encodes the texts', 'encoding', '', `${ratio('encoding').toFixed(2)} (${goals.encoding})`),
    '',
    await longDocument(),
    '',
    `node ${process.versions.node}, ${cpus()[0]?.model ?? 'unknown CPU'}, ${cpus().length} cores`,
  ].join('\n'),
);

/** Chunks a long document as the product does: in a worker thread, with chunk contexts and index terms. */
async function longDocument(): Promise<string> {
  const words = corpus.join('\n\n').match(/\S+\s*/g) ?? [];
  const body = Array.from({ length: longDocumentWords }, (_, index) => words[index % words.length]).join('');
  const chunker = createChunker({ tokens: createTokenCounter(), analyze: createTextAnalyzer() });
  const source = { documentName: 'Long', body, pageMap: null, chunking: { method: 'token', ...size } } as const;
  const done = new AbortController();
  const peak = peakMemory(done.signal);
  const startedAt = performance.now();
  const chunks = await chunker.chunk(source, [], { orgId: 'bench', signal: new AbortController().signal });
  const ms = performance.now() - startedAt;
  done.abort();
  const mib = Math.round((await peak) / 2 ** 20);
  return `A document of ${longDocumentWords} words (${body.length} characters): ${chunks.length} chunks in ${Math.round(ms)} ms, the process grew by ${mib} MiB.`;
}

async function peakMemory(until: AbortSignal): Promise<number> {
  const before = process.memoryUsage.rss();
  let most = before;
  try {
    for await (const _ of setInterval(5, undefined, { signal: until }))
      most = Math.max(most, process.memoryUsage.rss());
  } catch (error) {
    if (!until.aborted) throw error;
  }
  return most - before;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
