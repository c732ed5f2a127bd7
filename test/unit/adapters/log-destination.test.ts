import { spawnSync } from 'node:child_process';
import { closeSync, constants, mkdtempSync, openSync, readSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { createLogDestination } from '#src/adapters/log-destination.ts';

describe('the log destination', () => {
  let folder: string;
  let pipe: number;

  // A pipe without a reader is full after some lines, and has room again once it was read.
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'log-'));
    const path = join(folder, 'pipe');
    spawnSync('mkfifo', [path]);
    pipe = openSync(path, constants.O_RDWR | constants.O_NONBLOCK);
  });
  afterEach(() => {
    closeSync(pipe);
    rmSync(folder, { recursive: true });
  });

  function readAll(): string[] {
    const buffer = Buffer.alloc(1 << 20);
    let length = 0;
    try {
      for (;;) length += readSync(pipe, buffer, length, buffer.length - length, null);
    } catch {
      return buffer.toString('utf8', 0, length).split('\n');
    }
  }

  it('writes each line at once, drops lines that cannot be written, and later logs how many', () => {
    const log = createLogDestination(pipe);
    log.write('one\n');
    expect(readAll()).deep.equal(['one', '']);
    const long = 'x'.repeat(5_000);
    for (let line = 0; line < 30; line += 1) log.write(`${long}\n`);
    const [first, ...others] = readAll();
    expect(first).equal(long);
    const whole = 1 + others.filter((line) => line === long).length;
    expect(whole).within(1, 29);

    log.write('last\n');
    const [endOfTorn, note = '', last, rest] = readAll();
    expect(endOfTorn).equal('');
    expect(JSON.parse(note)).include({ level: 'warn', msg: `${30 - whole} lines before this one are lost: EAGAIN` });
    expect([last, rest]).deep.equal(['last', '']);
  });
});
