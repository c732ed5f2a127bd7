import type { MeasuredProduct } from '../measured-product.ts';
import { median } from '../median.ts';
import { report } from '../report.ts';
import { createPdf } from './big-pdf.ts';
import { readCorpus } from './corpus.ts';

const pages = 1_500;
const parsers = 3;
const samples = 20;
const goal = 1.3;

/**
 * P11: ingestion time of a small document while other organizations parse large ones, compared with an idle machine.
 */
export async function measureNeighbour(product: MeasuredProduct): Promise<string[]> {
  const api = await product.signUp();
  const pdf = createPdf(longPages());
  const ingestNote = async (index: number) => {
    const { runId } = await product.upload(api, `note-${index}.txt`, `Note ${index}: the meeting is moved to noon.`);
    await product.untilDone(runId);
    return (await product.readRun(runId)).wallMs;
  };
  for (let index = 0; index < 5; index += 1) await ingestNote(index);

  const idle: number[] = [];
  for (let index = 0; index < samples; index += 1) idle.push(await ingestNote(100 + index));

  const parsing = await startParsing(product, pdf);
  const busy: number[] = [];
  try {
    for (let index = 0; index < samples; index += 1) busy.push(await ingestNote(200 + index));
  } finally {
    await parsing.stop();
  }
  const ratio = median(busy) / median(idle);
  report({
    ...{ goal: 'P11', what: `ingestion of a small document while ${parsers} PDFs are parsed, p50`, unit: 'ms' },
    ...{ rounds: busy, peer: 'the same alone', ratios: ratio, atMost: goal },
  });
  return [
    `P11: a small document, ${samples} times, alone and while ${parsers} PDFs of ${pages} pages are parsed`,
    '',
    '| | p50 ms | ratio |',
    '|---|---|---|',
    `| alone | ${median(idle).toFixed(0)} | 1 |`,
    `| while others are parsed (${parsing.parsed()} were) | ${median(busy).toFixed(0)} | ${ratio.toFixed(2)} |`,
    '',
    `Goal: a ratio of at most ${goal}.`,
  ];
}

/**
 * Keeps a number of PDFs in the parsing stage, each in an organization of its own; their later stages are cancelled.
 */
async function startParsing(product: MeasuredProduct, pdf: Uint8Array<ArrayBuffer>) {
  let isStopped = false;
  let parsed = 0;
  const keepOneParsed = async (first: PromiseWithResolvers<void>) => {
    while (!isStopped) {
      const api = await product.signUp();
      const { runId } = await product.upload(api, 'large.pdf', pdf);
      await product.untilStage(api, runId, 'convert');
      first.resolve();
      await product.untilStage(api, runId, 'chunk');
      parsed += 1;
      await api.post(`/jobs/${runId}/cancel`, {});
    }
  };
  const lanes = Array.from({ length: parsers }, () => {
    const first = Promise.withResolvers<void>();
    return { first: first.promise, done: keepOneParsed(first) };
  });
  await Promise.all(lanes.map(({ first, done }) => Promise.race([first, done])));
  return {
    parsed: () => parsed,
    stop: async () => {
      isStopped = true;
      await Promise.all(lanes.map(({ done }) => done));
    },
  };
}

function longPages(): string[][] {
  const lines = readCorpus()
    .join(' ')
    .match(/.{1,90}(?:\s|$)/g) ?? [''];
  const linesPerPage = 60;
  return Array.from({ length: pages }, (_, page) =>
    Array.from({ length: linesPerPage }, (_, line) => lines[(page * linesPerPage + line) % lines.length] ?? ''),
  );
}
