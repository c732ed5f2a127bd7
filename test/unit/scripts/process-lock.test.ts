import { spawnSync } from 'node:child_process';
import { readdirSync, writeFileSync } from 'node:fs';
import { expect } from 'chai';
import { useTemporaryFolder } from '#test/support/temporary-folder.ts';
import { processStart, takeLock } from '../../../scripts/supervisor/process-lock.mjs';

describe('a process lock', () => {
  const pathOf = useTemporaryFolder();
  const path = () => pathOf('run', 'lock');

  function take() {
    const lock = takeLock(path());
    if ('heldBy' in lock) throw new Error(`held by ${lock.heldBy}`);
    return lock;
  }

  it('is held by one process, and is free after its release', () => {
    const lock = take();
    expect(takeLock(path())).deep.equal({ heldBy: process.pid });
    lock.release();
    take().release();
    expect(readdirSync(pathOf('run'))).deep.equal([]);
  });

  it('is free once its process has ended, even if another process gets the same pid', () => {
    take().release();
    expect(processStart(spawnSync('true').pid)).equal(null);
    for (const holder of [`${spawnSync('true').pid} whenever`, `${process.pid} another start`]) {
      writeFileSync(path(), holder);
      take().release();
    }
  });

  it('is not released by a process that lost it', () => {
    const lock = take();
    writeFileSync(path(), `${process.ppid} ${processStart(process.ppid)}`);
    lock.release();
    expect(takeLock(path())).deep.equal({ heldBy: process.ppid });
  });
});
