import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { processStart, takeLock } from '../../../scripts/supervisor/process-lock.mjs';

describe('process lock', () => {
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

  it('is held by one, and free again after its release', () => {
    const lock = take();
    expect(takeLock(path)).to.deep.equal({ heldBy: process.pid });
    lock.release();
    take().release();
    expect(readdirSync(join(folder, 'run'))).to.deep.equal([]);
  });

  it('does not outlive its process', () => {
    const { pid } = spawnSync('true');
    take().release();
    writeFileSync(path, `${pid} whenever`);
    take().release();
  });

  it('is not kept by a stranger who got the same pid', () => {
    take().release();
    writeFileSync(path, `${process.pid} another start`);
    take().release();
  });

  it('is not released by one who lost it', () => {
    const lock = take();
    writeFileSync(path, `${process.ppid} ${processStart(process.ppid)}`);
    lock.release();
    expect(takeLock(path)).to.deep.equal({ heldBy: process.ppid });
  });
});

describe('the start of a process', () => {
  it('is the same at every look', () => {
    expect(processStart(process.pid)).to.be.a('string').and.to.equal(processStart(process.pid));
  });

  it('differs between processes that began at different times', () => {
    expect(processStart(process.pid)).not.to.equal(processStart(1));
  });

  it('is null when nothing runs there', () => {
    expect(processStart(spawnSync('true').pid)).to.equal(null);
  });
});
