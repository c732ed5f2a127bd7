import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { PassThrough, type Writable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { mock } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { expect } from 'chai';
import { z } from 'zod';
import { runParserProcess } from '#src/adapters/converter/parser-process.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { until } from '#test/support/until.ts';

const ready = `echo '{"ready":true}'`;
const message = z.object({ number: z.number() });

describe('the parser process', () => {
  let numbers: number[];
  beforeEach(() => {
    numbers = [];
  });

  type Options = { wallMs?: number; signal?: AbortSignal; output?: Writable };
  /** Runs a shell script. @returns the numbers that it has printed */
  async function run(script: string, options: Options = {}): Promise<number[]> {
    const { wallMs = 20_000, signal = new AbortController().signal, output } = options;
    const process = {
      command: '/bin/sh',
      args: ['-c', script],
      workingDirectory: tmpdir(),
      signal,
      limits: { wallMs, processMemoryBytes: 1e9, outputBytes: 1_000 },
    };
    if (output !== undefined) await runParserProcess({ ...process, output });
    else await runParserProcess({ ...process, onMessage: (sent) => void numbers.push(message.parse(sent).number) });
    return numbers;
  }

  it('returns its JSON lines in order', async () => {
    expect(await run(`${ready}; echo '{"number":1}'; echo '{"number":2}'`)).deep.equal([1, 2]);
  });

  for (const [what, script, wallMs, code] of [
    ['invalid JSON', `${ready}; echo '{"number":NaN}'`, 20_000, 'corrupt_document'],
    ['output of another shape', `${ready}; echo '{"number":null}'`, 20_000, 'corrupt_document'],
    ['using the CPU for the whole time limit', `${ready}; while :; do :; done`, 200, 'conversion_timeout'],
    ['five times the time limit without using the CPU', `${ready}; exec sleep 60`, 50, 'conversion_timeout'],
  ] as const) {
    it(`fails with ${code} after ${what}`, async () => {
      expect(await appErrorCode(run(script, { wallMs }))).equal(code);
    });
  }

  it('does not fail at the time limit if it received little CPU time until then', async () => {
    expect(await run(`${ready}; sleep 0.7; echo '{"number":1}'`, { wallMs: 500 })).deep.equal([1]);
  });

  it('fails as a broken installation, not as a damaged file, if it ends before `ready`', async () => {
    expect(await run('echo Usage: parser').catch((error) => error)).property('name', 'SyntaxError');
  });

  describe('with a grandchild that keeps the output open', () => {
    const child = `sleep 600 & echo "{\\"number\\":$!}"`;
    afterEach(() => {
      mock.timers.reset();
      for (const pid of numbers) process.kill(pid, 'SIGKILL');
    });

    it('succeeds, and returns everything that it wrote before it exited', async () => {
      expect(await run(`${ready}; ${child}`)).length(1);
    });

    it('is ended when the signal aborts, or at the wall time limit', async () => {
      const stop = new AbortController();
      const running = run(`${ready}; ${child}; wait`, { signal: stop.signal }).catch((error) => error);
      await until('the child has started', async () => numbers.length > 0);
      stop.abort(new Error('stopped'));
      expect(await running).property('message', 'stopped');
      const endless = run(`${ready}; ${child}; while :; do :; done`, { wallMs: 200 });
      expect(await appErrorCode(endless)).equal('conversion_timeout');
    });

    it('loses no output when the reader is slower than the process', async () => {
      mock.timers.enable({ apis: ['setTimeout'] });
      const output = new PassThrough({ highWaterMark: 1 });
      const running = run('sleep 600 & echo $! $$; head -c 100000 /dev/zero', { output });
      await once(output, 'readable');
      const start: Buffer = output.read();
      const [line = ''] = start.toString().split('\n');
      const [child = 0, parser = 0] = line.split(' ').map(Number);
      numbers = [child];
      await until('the process has ended', async () => !isAlive(parser));
      for (let minutes = 0; minutes < 10; minutes += 1) {
        mock.timers.tick(60_000);
        await setImmediate();
      }
      const rest = Promise.all([buffer(output), running]);
      while ((await Promise.race([rest, setImmediate('pending')])) === 'pending') mock.timers.tick(60_000);
      expect(start.length - line.length - 1 + (await rest)[0].length).equal(100_000);
    });
  });
});

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
