// `npm run bench:memory [-- --documents 1000]`: memory of what `npm start` starts, at rest and after ingesting documents.
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { readManyTexts } from './ingest/corpus.ts';
import { processNames, startProduct } from './measured-product.ts';
import { report } from './report.ts';

const { values } = parseArgs({ options: { documents: { type: 'string', default: '1000' } } });
const documents = Number(values.documents);
const goals = { worker: { rest: 300, after: 450 }, all: 900 };
const restMs = 20_000;

const product = await startProduct({ TIER_LIMITS: '{"free":{"documents":10000}}' });
try {
  await delay(restMs);
  const rest = await measure();
  const api = await product.signUp();
  const texts = readManyTexts(documents);
  for (let from = 0; from < texts.length; from += 20) {
    const uploads = await Promise.all(
      texts.slice(from, from + 20).map((text, index) => product.upload(api, `${from + index}.md`, text)),
    );
    await Promise.all(uploads.map(({ runId }) => product.untilDone(runId)));
  }
  const busy = await measure();
  await delay(restMs);
  const after = await measure();
  const row = (name: string, at: (each: Record<string, number>) => number) =>
    `| ${name} | ${at(rest)} | ${at(busy)} | ${at(after)} |`;
  const sum = (each: Record<string, number>) => Object.values(each).reduce((total, one) => total + one, 0);
  const memory = { goal: 'P17', unit: 'MB' };
  report({ ...memory, what: 'PSS of all processes at rest', rounds: sum(rest), atMost: goals.all });
  report({
    ...memory,
    what: 'PSS of the worker at rest',
    rounds: rest.worker ?? Number.NaN,
    atMost: goals.worker.rest,
  });
  report({
    ...{ ...memory, what: `PSS of the worker after ${documents} documents` },
    ...{ rounds: after.worker ?? Number.NaN, atMost: goals.worker.after },
  });
  console.log(
    [
      `Memory (PSS) in MB; goals: worker ${goals.worker.rest} at rest and ${goals.worker.after} after 1,000 documents, all ${goals.all} at rest`,
      '',
      `| | ${restMs / 1_000} s after the start | after ${documents} documents | ${restMs / 1_000} s later |`,
      '|---|---|---|---|',
      ...processNames.map((name) => row(name, (each) => each[name] ?? 0)),
      row('all', sum),
    ].join('\n'),
  );
} finally {
  await product.stop();
}

async function measure(): Promise<Record<string, number>> {
  const entries = processNames.map(async (name) => [name, await product.memoryMb(name)] as const);
  return Object.fromEntries(await Promise.all(entries));
}
