import { median } from '../median.ts';
import { report, roundsOf } from '../report.ts';
import { fixedRequest, runOpenLoopLoad } from './keep-alive.ts';
import type { MeasuredApi, User } from './measured-api.ts';

const rounds = roundsOf(5);
const everyMs = 10;
const requests = 600;
const loginsAtOnce = 20;

/** P8: latency of ordinary requests during many concurrent sign-ins, compared with the same load without them. */
export async function measureLoginStorm(api: MeasuredApi): Promise<string[]> {
  const reader = await api.signUp();
  const visitors: User[] = [];
  for (let count = 0; count < loginsAtOnce; count += 1) visitors.push(await api.signUp());
  const request = await fixedRequest(api.ports.api, '/entity/me/profile', reader.token);
  const read = () => runOpenLoopLoad(request, everyMs, requests);

  async function readInStorm(): Promise<{ latencies: number[]; logins: number }> {
    let isOver = false;
    let logins = 0;
    const storm = visitors.map(async (visitor) => {
      while (!isOver) {
        await api.logIn(visitor);
        logins += 1;
      }
    });
    const latencies = await read();
    isOver = true;
    await Promise.all(storm);
    return { latencies, logins };
  }
  await read();

  const measured: Record<'idleP50' | 'idleP99' | 'stormP50' | 'stormP99' | 'ratio' | 'logins', number>[] = [];
  for (let round = 0; round < rounds; round++) {
    const idle = await read();
    const { latencies, logins } = await readInStorm();
    const [idleP99, stormP99] = [quantile(idle, 0.99), quantile(latencies, 0.99)];
    measured.push({
      ...{ idleP50: quantile(idle, 0.5), idleP99, stormP50: quantile(latencies, 0.5), stormP99 },
      ...{ ratio: stormP99 / idleP99, logins: logins / ((requests * everyMs) / 1_000) },
    });
  }
  const of = (fact: keyof (typeof measured)[number]) => median(measured.map((round) => round[fact]));
  report({
    ...{ goal: 'P8', what: `p99 of a request while ${loginsAtOnce} users sign in again and again`, unit: 'ms' },
    ...{ rounds: measured.map(({ stormP99 }) => stormP99), peer: 'the same when idle' },
    ...{ ratios: measured.map(({ ratio }) => ratio), atMost: 5 },
  });
  return [
    `P8: a request every ${everyMs} ms, alone and while ${loginsAtOnce} sign in again and again (${of('logins').toFixed(0)} a second); ${rounds} rounds in turns, medians`,
    '',
    '| | p50 | p99 | p99 to idle |',
    '|---|---|---|---|',
    `| idle | ${of('idleP50').toFixed(1)} ms | ${of('idleP99').toFixed(1)} ms | 1 |`,
    `| in the storm | ${of('stormP50').toFixed(1)} ms | ${of('stormP99').toFixed(1)} ms | ${of('ratio').toFixed(1)} |`,
  ];
}

function quantile(values: readonly number[], share: number): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length * share)] ?? Number.NaN;
}
