import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { processStart, takeLock } from '../../../scripts/supervisor/process-lock.mjs';

describe('a process lock', () => {
  let folder: string;
  let path: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'process-lock-'));
    path = join(folder, 'run', 'lock');
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  function take() {
    const lock = takeLock(path);
    if ('heldBy' in lock) throw new Error(`held by ${lock.heldBy}`);
    return lock;
  }

  it('is held by one process, and is free after its release', () => {
    const lock = take();
    expect(takeLock(path)).deep.equal({ heldBy: process.pid });
    lock.release();
    take().release();
    expect(readdirSync(join(folder, 'run'))).deep.equal([]);
  });

  it('is free once its process has ended, even if another process gets the same pid', () => {
    take().release();
    for (const holder of [`${spawnSync('true').pid} whenever`, `${process.pid} another start`]) {
      writeFileSync(path, holder);
      take().release();
    }
  });

  it('is not released by a process that lost it', () => {
    const lock = take();
    writeFileSync(path, `${process.ppid} ${processStart(process.ppid)}`);
    lock.release();
    expect(takeLock(path)).deep.equal({ heldBy: process.ppid });
  });

  it('identifies a process by its start time, which is null for an ended process', () => {
    expect(processStart(process.pid)).a('string').equal(processStart(process.pid)).not.equal(processStart(1));
    expect(processStart(spawnSync('true').pid)).equal(null);
  });
});
