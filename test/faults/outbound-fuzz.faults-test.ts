import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect } from 'chai';
import { note } from '#test/support/fault-run.ts';
import { type Answer, type HostileKind, hostileKinds, slowKinds } from '#test/support/hostile-server.ts';
import { watchMemory } from '#test/support/memory-peaks.ts';
import {
  type OutboundClient,
  type OutboundClients,
  openOutboundClients,
} from '#test/unit/adapters/outbound-clients.cases.ts';
import { megabytes } from './memory-of.ts';

const maxLagMs = 200;
const maxGrownBytes = 64 * 1024 * 1024;
/** The least of them counts: another process may hold up one. */
const attempts = 3;
const lookEveryMs = 5;

/** Units that are expensive to parse, for the clients of `many entries`. */
const denseXml = ['<a/>', '<Contents/>', '<CommonPrefixes/>', 'a<b/>', '&x;', '&#1;', '&amp;', ' \n', '<![CDATA[]]>'];
const denseJson = ['{},', '[],', '"",', '0,', '[[[[]]]],', '{"a":{"b":{}}},'];

type Measured = { lagMs: number; grownBytes: number };

describe('the clients for model services and file providers', function () {
  this.timeout(900_000);
  let server: ChildProcess;
  let patient: OutboundClients;
  let hasty: typeof patient;
  const worst = { lagMs: 0, grownBytes: 0 };

  setFlagsFromString('--expose-gc');
  const collectGarbage: () => void = runInNewContext('gc');

  before(async () => {
    const script = new URL('../support/hostile-server.ts', import.meta.url).pathname;
    // JSON would make null of what is undefined.
    server = fork(script, { serialization: 'advanced' });
    const [place] = await once(server, 'message');
    patient = openOutboundClients({ place, timeMs: 20_000 });
    hasty = openOutboundClients({ place, timeMs: 500 });
  });
  after(async () => {
    note(`lag ${worst.lagMs.toFixed(0)} ms, memory ${megabytes(worst.grownBytes)} at most`);
    await patient.close();
    await hasty.close();
    server.kill();
  });

  async function measure(kind: HostileKind, answer: Answer, { sound, call }: OutboundClient): Promise<Measured> {
    server.send([kind, answer, sound]);
    await once(server, 'message');
    collectGarbage();
    const memory = await watchMemory(process.pid);
    const lag = watchLag();
    await delay(2 * lookEveryMs);
    // Its outcome is checked by test/unit/adapters/outbound-answers.test.ts.
    await call().catch(() => undefined);
    // The watch sees a delay at its next turn.
    await delay(2 * lookEveryMs);
    return { lagMs: lag(), grownBytes: (await memory()).grownBytes };
  }

  async function check(name: string, kind: HostileKind, answer: Answer, client: OutboundClient): Promise<string[]> {
    const least = { lagMs: Number.POSITIVE_INFINITY, grownBytes: Number.POSITIVE_INFINITY };
    const isGood = () => least.lagMs <= maxLagMs && least.grownBytes <= maxGrownBytes;
    for (let attempt = 0; attempt < attempts && !isGood(); attempt += 1) {
      const { lagMs, grownBytes } = await measure(kind, answer, client);
      least.lagMs = Math.min(least.lagMs, lagMs);
      least.grownBytes = Math.min(least.grownBytes, Math.max(grownBytes, 0));
    }
    worst.lagMs = Math.max(worst.lagMs, least.lagMs);
    worst.grownBytes = Math.max(worst.grownBytes, least.grownBytes);
    const measured = `lag ${least.lagMs.toFixed(0).padStart(4)} ms  memory ${megabytes(least.grownBytes).padStart(7)}`;
    console.log(`${name.padEnd(18)} ${kind.padEnd(44)} ${measured}`);
    return isGood() ? [] : [`${name}, ${kind}: ${measured}`];
  }

  it(`handle every hostile response without blocking the event loop for ${maxLagMs} ms or taking 64 MB`, async () => {
    const failures: string[] = [];
    for (const [name, patientClient] of Object.entries(patient.clients)) {
      for (const kind of Object.keys(hostileKinds) as HostileKind[]) {
        const client = slowKinds.includes(kind) ? hasty.clients[name] : patientClient;
        if (client) failures.push(...(await check(name, kind, client.answer, client)));
      }
      const { answer } = patientClient;
      const units = { 'application/xml': denseXml, 'application/json': denseJson }[answer.mediaType] ?? [];
      for (const unit of units) {
        const label = `${name} ${JSON.stringify(unit)}`;
        failures.push(...(await check(label, 'many entries', { ...answer, unit }, patientClient)));
      }
    }
    expect(failures).deep.equal([]);
  });
});

/**
 * Watches the longest time for which this thread works without a turn of the event loop. In CPU time: on a busy machine
 * the clock goes on while the thread waits for a processor.
 */
function watchLag(): () => number {
  const cpuMs = () => {
    const { user, system } = process.threadCpuUsage();
    return (user + system) / 1_000;
  };
  let before = cpuMs();
  let longestMs = 0;
  const timer = setInterval(() => {
    const now = cpuMs();
    longestMs = Math.max(longestMs, now - before);
    before = now;
  }, lookEveryMs);
  return () => {
    clearInterval(timer);
    return longestMs;
  };
}
