import { median } from '../median.ts';
import { report, roundsOf } from '../report.ts';
import { fixedRequest, runClosedLoopLoad } from './keep-alive.ts';
import type { MeasuredApi, Process } from './measured-api.ts';

const rounds = roundsOf(7);
const durationMs = 2_000;
const concurrency = 32;

type Peer = Exclude<Process, 'unmeasured'>;
type Figures = Record<Peer, { perSecond: number; cpuMicros: number }>;

/**
 * P7: an authenticated request with one SELECT, compared with that SELECT in a bare pool and behind a bare HTTP server.
 */
export async function measureThroughput(api: MeasuredApi): Promise<string[]> {
  const { userId, token } = await api.signUp();
  const request = await fixedRequest(api.ports.api, '/entity/me/profile', token);
  const bareRequest = await fixedRequest(api.ports.bareServer, `/${userId}`, token);
  const works: Record<Peer, () => Promise<number>> = {
    barePool: () => api.queryBare({ userId, concurrency, durationMs }),
    bareServer: () => runClosedLoopLoad(bareRequest, concurrency, durationMs),
    api: () => runClosedLoopLoad(request, concurrency, durationMs),
  };
  const measure = async (process: Peer) => {
    const { result: perSecond, cpuMicros } = await api.cpuDuring(process, works[process]);
    return { perSecond, cpuMicros: (cpuMicros * 1_000) / (perSecond * durationMs) };
  };
  const round = async (): Promise<Figures> => ({
    barePool: await measure('barePool'),
    bareServer: await measure('bareServer'),
    api: await measure('api'),
  });

  await round();
  const measured: Figures[] = [];
  for (let count = 0; count < rounds; count++) measured.push(await round());
  const row = (name: string, process: Peer) => {
    const of = (fact: (figures: Figures) => number) => median(measured.map(fact));
    const rate = of((figures) => figures[process].perSecond);
    const ratio = of((figures) => figures[process].perSecond / figures.barePool.perSecond);
    const above = of((figures) => figures[process].cpuMicros - figures.barePool.cpuMicros);
    return `| ${name} | ${rate.toFixed(0)} | ${ratio.toFixed(2)} | ${above.toFixed(0)} µs |`;
  };
  report({
    ...{ goal: 'P7', what: 'GET /entity/me/profile', unit: 'per second', peer: 'its SELECT by a bare pool of pg' },
    ...{ rounds: measured.map((round) => round.api.perSecond), atLeast: 0.5 },
    ratios: measured.map((round) => round.api.perSecond / round.barePool.perSecond),
  });
  report({
    ...{ goal: 'P7', what: "CPU time of GET /entity/me/profile above its query's", unit: 'µs', atMost: 35 },
    rounds: measured.map((round) => round.api.cpuMicros - round.barePool.cpuMicros),
  });
  const cpuOfQuery = median(measured.map(({ barePool }) => barePool.cpuMicros));
  return [
    `P7: GET /entity/me/profile, ${concurrency} at a time; ${rounds} rounds in turns, medians`,
    '',
    `| | per second | ratio | processor time of its process above the query's (${cpuOfQuery.toFixed(0)} µs) |`,
    '|---|---|---|---|',
    row('its SELECT by a bare pool of pg', 'barePool'),
    row("the same behind Node's bare HTTP server", 'bareServer'),
    row('ours', 'api'),
  ];
}
