// `npm run bench:transfer` measures the upload and download of a large file: speed and memory, compared with a bare
// server.
import { readFile, writeFile } from 'node:fs/promises';
import { cpus, loadavg } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { median } from './median.ts';
import { report, roundsOf } from './report.ts';
import { type Content, randomContent, receive, send } from './transfer/exchange.ts';
import { type Api, type Server, startServers } from './transfer/servers.ts';

const MEGABYTES = 500;
const ROUNDS = roundsOf(3);
const REST_MS = 2_000;

type Figures = { perSecond: number; cpuSeconds: number; grownBy: number };

const { apis, bare, stop } = await startServers();
try {
  const small = randomContent(1);
  for (const api of apis) await receive(fileOf(api, await upload(api, small)), small);
  const measured = new Map<string, Figures[]>();
  for (let round = 0; round < ROUNDS; round += 1) {
    const content = randomContent(MEGABYTES);
    const note = async (name: string, server: Server, work: () => Promise<unknown>) =>
      measured.set(name, [...(measured.get(name) ?? []), await measure(server, work)]);
    await note('in, bare', bare, () => send(bare, content, false));
    await note('out, bare', bare, () => receive(bare, content));
    for (const api of apis) {
      let id = '';
      await note(`in, ${api.name}`, api, async () => {
        id = await upload(api, content);
      });
      await note(`out, ${api.name}`, api, () => receive(fileOf(api, id), content));
    }
  }
  console.log(`\n${MEGABYTES} MB, ${ROUNDS} alternating rounds, medians; memory: maximum of all rounds\n`);
  console.log('| | MB/s | speed to bare server | CPU time to bare server | memory over idle |\n|---|---|---|---|---|');
  for (const [name, rounds] of measured) {
    const peers = measured.get(`${name.split(',')[0]}, bare`) ?? [];
    const beside = (field: 'perSecond' | 'cpuSeconds') =>
      median(rounds.map((figures, round) => figures[field] / (peers[round]?.[field] ?? Number.NaN))).toFixed(2);
    const grownBy = Math.max(...rounds.map((figures) => figures.grownBy));
    if (!name.endsWith('bare'))
      report({
        goal: 'P12',
        what: `${MEGABYTES} MB ${name}: most memory above idle`,
        unit: 'MB',
        rounds: grownBy,
        atMost: 80,
      });
    const speed = median(rounds.map(({ perSecond }) => perSecond)).toFixed(0);
    console.log(`| ${name} | ${speed} | ${beside('perSecond')} | ${beside('cpuSeconds')} | ${grownBy.toFixed(0)} MB |`);
  }
  console.log(
    `\nnode ${process.versions.node}, ${cpus()[0]?.model ?? 'unknown CPU'}, ${cpus().length} cores, load ${loadavg()[0]?.toFixed(1)}`,
  );
} finally {
  await stop();
}

async function upload(api: Api, content: Content): Promise<string> {
  const { id } = JSON.parse(await send({ url: `${api.url}/documents`, token: api.token }, content, true)) as {
    id: string;
  };
  return id;
}

function fileOf({ url, token }: Api, id: string) {
  return { url: `${url}/documents/${id}/file`, token };
}

async function measure({ pid }: Server, work: () => Promise<unknown>): Promise<Figures> {
  await delay(REST_MS);
  // Resets the peak memory that the kernel recorded for the process.
  await writeFile(`/proc/${pid}/clear_refs`, '5');
  const idle = await megabytesOf(pid, 'VmRSS');
  const before = await cpuSecondsOf(pid);
  const begin = performance.now();
  await work();
  const seconds = (performance.now() - begin) / 1_000;
  return {
    perSecond: MEGABYTES / seconds,
    cpuSeconds: (await cpuSecondsOf(pid)) - before,
    grownBy: (await megabytesOf(pid, 'VmHWM')) - idle,
  };
}

async function cpuSecondsOf(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  const [user, system] = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .slice(11, 13);
  // Linux reports hundredths of a second for every kernel clock.
  return (Number(user) + Number(system)) / 100;
}

async function megabytesOf(pid: number, field: 'VmRSS' | 'VmHWM'): Promise<number> {
  const [, kilobytes] = new RegExp(`${field}:\\s+(\\d+)`).exec(await readFile(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Number(kilobytes) / 1_024;
}
