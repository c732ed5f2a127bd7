import type { MeasuredProduct } from '../measured-product.ts';
import { median } from '../median.ts';
import { report } from '../report.ts';

const runs = 40;
const goals = { wallMs: 30, cpuMs: 45 };

/** P9: overhead of the workflow run of a small document over the time of its activities. */
export async function measureOrchestration(product: MeasuredProduct): Promise<string[]> {
  const api = await product.signUp();
  const ingest = async (index: number) => {
    const text = `# Note ${index}\n\nThe meeting of group ${index} is moved to noon, in room ${index + 100}.`;
    const { runId } = await product.upload(api, `note-${index}.md`, text);
    await product.untilDone(runId);
    return runId;
  };
  for (let index = 0; index < 10; index += 1) await ingest(index);

  const cpuBefore = await product.cpuMs('temporal', 'worker');
  const runIds: string[] = [];
  for (let index = 0; index < runs; index += 1) runIds.push(await ingest(1_000 + index));
  const cpuMs = (await product.cpuMs('temporal', 'worker')) - cpuBefore;

  const measured = await Promise.all(runIds.map(product.readRun));
  const wall = median(measured.map(({ wallMs }) => wallMs));
  const outside = measured.map(({ wallMs, activitiesMs }) => wallMs - activitiesMs);
  const above = median(outside);
  report({
    ...{ goal: 'P9', what: 'ingestion of a document of one chunk: wall time outside of activities', unit: 'ms' },
    ...{ rounds: outside, atMost: goals.wallMs },
  });
  report({
    ...{ goal: 'P9', what: 'the same: CPU of Temporal and worker, activities included', unit: 'ms' },
    ...{ rounds: cpuMs / runs, atMost: goals.cpuMs },
  });
  return [
    `P9: ${runs} documents of one chunk, one after the other, medians`,
    '',
    '| | ms |',
    '|---|---|',
    `| the run, from its start to its end | ${wall.toFixed(1)} |`,
    `| of that, outside of its activities | ${above.toFixed(1)} |`,
    `| CPU of the engine and the worker, a document | ${(cpuMs / runs).toFixed(1)} |`,
    '',
    `Goals: at most ${goals.wallMs} ms and ${goals.cpuMs} CPU-ms above the activities.`,
  ];
}
