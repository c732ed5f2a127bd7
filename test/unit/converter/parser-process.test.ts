import { tmpdir } from 'node:os';
import { Writable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { mock } from 'node:test';
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
      ...{ command: '/bin/sh', args: ['-c', script], workingDirectory: tmpdir(), signal },
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
    ['one period of CPU work', `${ready}; while :; do :; done`, 200, 'conversion_timeout'],
    ['five idle periods', `${ready}; exec sleep 60`, 50, 'conversion_timeout'],
  ] as const) {
    it(`fails with ${code} after ${what}`, async () => {
      expect(await appErrorCode(run(script, { wallMs }))).equal(code);
    });
  }

  it('gets more time if it received little CPU time', async () => {
    expect(await run(`${ready}; sleep 0.7; echo '{"number":1}'`, { wallMs: 500 })).deep.equal([1]);
  });

  it('fails as a broken installation, not as a damaged file, if it ends before `ready`', async () => {
    expect(await run('echo Usage: parser').catch((error) => error)).property('name', 'SyntaxError');
  });

  describe('with a grandchild that keeps the output open', () => {
    /** Prints its process id as a number. */
    const child = `sleep 600 & echo "{\\"number\\":$!}"`;
    afterEach(() => {
      mock.timers.reset();
      for (const pid of numbers) process.kill(pid, 'SIGKILL');
    });

    it('succeeds with everything written before the exit', async () => {
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
      const bytes = 100_000;
      const chunks: Buffer[] = [];
      let goOn: (() => void) | undefined;
      const output = new Writable({
        highWaterMark: 1,
        write: (chunk, _encoding, done) => {
          chunks.push(chunk);
          if (goOn) return done();
          goOn = done;
        },
      });
      const running = run(`sleep 600 & echo $! $$; head -c ${bytes} /dev/zero`, { output });
      const head = () => Buffer.concat(chunks).toString().split('\n')[0] ?? '';
      await until('the process has ended', async () => {
        const [pid, parser] = head().split(' ').map(Number);
        if (pid === undefined || parser === undefined || isAlive(parser)) return false;
        numbers = [pid];
        return true;
      });
      const passMinutes = async (areOver: (minutes: number) => boolean) => {
        for (let minutes = 0; !areOver(minutes); minutes += 1) {
          mock.timers.tick(60_000);
          await new Promise(setImmediate);
        }
      };
      await passMinutes((minutes) => minutes === 10);
      goOn?.();
      const result = Promise.all([running, finished(output)]);
      await passMinutes(() => output.closed);
      await result;
      expect(Buffer.concat(chunks).length - head().length - 1).equal(bytes);
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
