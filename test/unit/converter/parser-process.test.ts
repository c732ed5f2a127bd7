import { tmpdir } from 'node:os';
import { expect } from 'chai';
import { z } from 'zod';
import { runParserProcess } from '#src/adapters/converter/parser-process.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';

describe('the process of a parser', () => {
  const number = z.object({ number: z.number() });

  /** @returns the numbers that a shell script says */
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

  it('hears line after line', async () => {
    expect(await run(`${ready}; echo '{"number":1}'; echo '{"number":2}'`)).deep.equal([1, 2]);
  });

  it('corrupt_document: when a file makes it say what is no JSON, or of another shape', async () => {
    expect(await appErrorCode(run(`${ready}; echo '{"number":NaN}'`))).equal('corrupt_document');
    expect(await appErrorCode(run(`${ready}; echo '{"number":null}'`))).equal('corrupt_document');
  });

  it('conversion_timeout: when it has worked for its time, or done nothing for five times as long', async () => {
    expect(await appErrorCode(run(`${ready}; while :; do :; done`, 200))).equal('conversion_timeout');
    expect(await appErrorCode(run(`${ready}; exec sleep 60`, 50))).equal('conversion_timeout');
  });

  it('conversion_timeout: when a process that it started keeps its output open', async () => {
    expect(await appErrorCode(run(`${ready}; sleep 20 & exit 0`, 200))).equal('conversion_timeout');
  });

  it('has more time where it has had no turn', async () => {
    expect(await run(`${ready}; sleep 0.7; echo '{"number":1}'`, 500)).deep.equal([1]);
  });

  it('is broken, and not the file, when it says that before it is ready', async () => {
    expect(await run('echo Usage: parser').catch((error) => error)).property('name', 'SyntaxError');
  });
});
