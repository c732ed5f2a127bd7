import { median } from '../median.ts';
import { report, roundsOf } from '../report.ts';
import { fixedRequest, runClosedLoopLoad } from './keep-alive.ts';
import type { MeasuredApi } from './measured-api.ts';

/** Many short alternating rounds, so that other load on the machine affects both APIs alike. */
const rounds = roundsOf(61);
const durationMs = 400;
const concurrency = 32;

/** Compares the CPU time of a request with and without metrics and traces, in alternating rounds. */
export async function measureMetricsCost(api: MeasuredApi): Promise<string[]> {
  const { token } = await api.signUp();
  const path = '/entity/me/profile';
  const measured = await fixedRequest(api.ports.api, path, token);
  const bare = await fixedRequest(api.ports.unmeasured, path, token);
  let measuredFirst = false;
  const round = async () => {
    const one = async (process: 'api' | 'unmeasured') => {
      const request = process === 'api' ? measured : bare;
      const { result: perSecond, cpuMicros } = await api.cpuDuring(process, () =>
        runClosedLoopLoad(request, concurrency, durationMs),
      );
      return { perSecond, cpuMicros: (cpuMicros * 1_000) / (perSecond * durationMs) };
    };
    const isFirst = measuredFirst;
    measuredFirst = !measuredFirst;
    const early = await one(isFirst ? 'api' : 'unmeasured');
    const late = await one(isFirst ? 'unmeasured' : 'api');
    return isFirst ? { without: late, with: early } : { without: early, with: late };
  };
  await round();
  const all: Awaited<ReturnType<typeof round>>[] = [];
  for (let count = 0; count < rounds; count++) all.push(await round());
  report({
    ...{ goal: 'metrics', what: 'CPU time of a request with metrics', unit: 'µs', peer: 'the same without them' },
    ...{ rounds: all.map((one) => one.with.cpuMicros), atMost: 1.03 },
    ratios: all.map((one) => one.with.cpuMicros / one.without.cpuMicros),
  });
  const rate = (of: 'with' | 'without') => median(all.map((one) => one[of].perSecond)).toFixed(0);
  const cpu = (of: 'with' | 'without') => median(all.map((one) => one[of].cpuMicros)).toFixed(0);
  const ratio = median(all.map((one) => one.with.perSecond / one.without.perSecond));
  const cpuRatio = median(all.map((one) => one.with.cpuMicros / one.without.cpuMicros));
  return [
    `metrics: GET ${path}, ${concurrency} at a time; ${rounds} rounds in turns, medians`,
    '',
    '| | per second | ratio | processor time of a request | ratio |',
    '|---|---|---|---|---|',
    `| the API without metrics | ${rate('without')} | | ${cpu('without')} µs | |`,
    `| with them | ${rate('with')} | ${ratio.toFixed(3)} | ${cpu('with')} µs | ${cpuRatio.toFixed(3)} |`,
  ];
}
