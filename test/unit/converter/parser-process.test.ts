import { tmpdir } from 'node:os';
import { Writable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { mock } from 'node:test';
import { expect } from 'chai';
import { z } from 'zod';
import { runParserProcess } from '#src/adapters/converter/parser-process.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { until } from '#test/support/until.ts';

describe('runParserProcess', () => {
  const number = z.object({ number: z.number() });

  afterEach(() => mock.timers.reset());

  /** @returns the numbers that a shell script prints */
  async function run(script: string, wallMs = 20_000): Promise<number[]> {
    const numbers: number[] = [];
    await runParserProcess({
      command: '/bin/sh',
      args: ['-c', script],
      workingDirectory: tmpdir(),
      limits: { wallMs, processMemoryBytes: 1e9, outputBytes: 1_000 },
      signal: new AbortController().signal,
      onMessage: (message) => void numbers.push(number.parse(message).number),
    });
    return numbers;
  }
  const ready = `echo '{"ready":true}'`;

  it('passes each JSON line on in order', async () => {
    expect(await run(`${ready}; echo '{"number":1}'; echo '{"number":2}'`)).deep.equal([1, 2]);
  });

  it('corrupt_document: for output that is invalid JSON or has another shape', async () => {
    expect(await appErrorCode(run(`${ready}; echo '{"number":NaN}'`))).equal('corrupt_document');
    expect(await appErrorCode(run(`${ready}; echo '{"number":null}'`))).equal('corrupt_document');
  });

  it('conversion_timeout: after one period of CPU work, or five idle periods', async () => {
    expect(await appErrorCode(run(`${ready}; while :; do :; done`, 200))).equal('conversion_timeout');
    expect(await appErrorCode(run(`${ready}; exec sleep 60`, 50))).equal('conversion_timeout');
  });

  it('extends the time of a process that got little CPU time', async () => {
    expect(await run(`${ready}; sleep 0.7; echo '{"number":1}'`, 500)).deep.equal([1]);
  });

  it('reports a failure before `ready` as a broken installation, not as a damaged file', async () => {
    expect(await run('echo Usage: parser').catch((error) => error)).property('name', 'SyntaxError');
  });

  describe('with a grandchild that keeps the output open', () => {
    const limits = { wallMs: 20_000, processMemoryBytes: 1e9, outputBytes: 1_000 };
    const signal = new AbortController().signal;
    const startChild = `sleep 600 & echo "{\\"number\\":$!}"`;
    let left: number[];
    beforeEach(() => {
      left = [];
    });
    afterEach(() => {
      for (const pid of left) process.kill(pid, 'SIGKILL');
    });

    function start(script: string, signal: AbortSignal, wallMs = limits.wallMs): Promise<void> {
      return runParserProcess({
        command: '/bin/sh',
        args: ['-c', script],
        workingDirectory: tmpdir(),
        limits: { ...limits, wallMs },
        signal,
        onMessage: (message) => void left.push(number.parse(message).number),
      });
    }

    it('succeeds with everything written before the exit', async () => {
      await start(`${ready}; ${startChild}`, signal);
      expect(left).length(1);
    });

    it('ends when the signal aborts', async () => {
      const stop = new AbortController();
      const running = start(`${ready}; ${startChild}; wait`, stop.signal).catch((error) => error);
      await until('the child has started', async () => left.length > 0);
      stop.abort(new Error('stopped'));
      expect(await running).property('message', 'stopped');
    });

    it('conversion_timeout: ends at the wall time limit', async () => {
      expect(await appErrorCode(start(`${ready}; ${startChild}; while :; do :; done`, signal, 200))).equal(
        'conversion_timeout',
      );
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
      const running = runParserProcess({
        command: '/bin/sh',
        args: ['-c', `sleep 600 & echo $! $$; head -c ${bytes} /dev/zero`],
        ...{ workingDirectory: tmpdir(), limits, signal, output },
      });
      const head = () => Buffer.concat(chunks).toString().split('\n')[0] ?? '';
      const parser = await until('the process has ended', async () => {
        const [child, parser] = head().split(' ').map(Number);
        if (child === undefined || parser === undefined || isAlive(parser)) return false;
        left = [child];
        return parser;
      });
      const passMinute = async () => {
        mock.timers.tick(60_000);
        await new Promise(setImmediate);
      };
      for (let minute = 0; minute < 10; minute += 1) await passMinute();
      goOn?.();
      let isOver = false;
      const result = Promise.all([running, finished(output)]).finally(() => {
        isOver = true;
      });
      while (!isOver) await passMinute();
      await result;
      expect(Buffer.concat(chunks).length - `${left[0]} ${parser}\n`.length).equal(bytes);
    });
  });
});

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
