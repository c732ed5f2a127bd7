import { execFile, spawn } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { setPriority } from 'node:os';
import { promisify } from 'node:util';
import { appError } from '#src/errors.ts';
import type { RenderLimits } from './render-limits.ts';

const watchEveryMs = 200;
const keptOutput = 4_000;
/** Somebody waits for every other process of ours. */
const niceness = 10;
const pageBytes = 4_096;

/**
 * The program, beside a shell that waits for the end of the input, which comes when we are gone: then nobody is left to
 * watch, and it kills the group.
 */
const endsWithUs = 'exec 3<&0 </dev/null; { read -r _ <&3; kill -KILL 0; } >/dev/null 2>&1 & exec "$0" "$@" 3<&-';

/** How a program ended by itself; 126 or 127 when it could not be started. */
type EndOfProcess = { exitCode: number | null; output: string };

/**
 * Runs a program that starts others, all of them in a group of their own that is killed as a whole: at its limits, when
 * the signal fires, when the program has ended and left something behind, and when this process dies.
 *
 * @throws AppError conversion_timeout, too_large
 * @throws the signal's reason after an abort
 */
export async function runProcessGroup(run: {
  /** The program, and its arguments. */
  command: readonly string[];
  environment: Record<string, string>;
  workingDirectory: string;
  limits: Pick<RenderLimits, 'wallMs' | 'memoryBytes'>;
  signal: AbortSignal;
}): Promise<EndOfProcess> {
  const { limits, signal } = run;
  signal.throwIfAborted();
  const child = spawn('/bin/sh', ['-c', endsWithUs, ...run.command], {
    cwd: run.workingDirectory,
    env: run.environment,
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true,
  });
  const group = child.pid;
  const kill = () => {
    try {
      if (group !== undefined) process.kill(-group, 'SIGKILL');
    } catch {
      // All of it has ended.
    }
  };
  let failure: unknown;
  const end = (reason: unknown) => {
    failure ??= reason;
    kill();
  };

  const onAbort = () => end(signal.reason);
  signal.addEventListener('abort', onAbort);
  const wall = setTimeout(() => {
    const seconds = Math.round(limits.wallMs / 1_000);
    end(appError('conversion_timeout', { detail: `The file was not printed within ${seconds} seconds.` }));
  }, limits.wallMs);
  const watch = setInterval(async () => {
    const bytes = group === undefined ? 0 : await residentBytes(group).catch(() => 0);
    if (bytes > limits.memoryBytes) {
      end(appError('too_large', { detail: 'Printing the file takes more memory than is allowed.' }));
    }
  }, watchEveryMs);

  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output = (output + text).slice(-keptOutput);
    });
  }
  try {
    const exitCode = await new Promise<number | null>((resolve, reject) => {
      child.once('error', reject);
      child.once('spawn', () => yieldToOthers(group));
      // Not its closing: what it left behind may hold its output open.
      child.once('exit', resolve);
    });
    if (failure !== undefined) throw failure;
    return { exitCode, output };
  } finally {
    kill();
    child.stdout.destroy();
    child.stderr.destroy();
    clearTimeout(wall);
    clearInterval(watch);
    signal.removeEventListener('abort', onAbort);
  }
}

async function residentBytes(group: number): Promise<number> {
  if (process.platform !== 'linux') {
    const { stdout } = await promisify(execFile)('ps', ['-axo', 'pgid=,rss=']);
    const rows = stdout.split('\n').map((row) => row.trim().split(/\s+/).map(Number));
    return rows.reduce((sum, [pgid, kib = 0]) => sum + (pgid === group ? kib * 1_024 : 0), 0);
  }
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const sizes = await Promise.all(pids.map((pid) => residentBytesIn(group, pid).catch(() => 0)));
  return sizes.reduce((sum, bytes) => sum + bytes, 0);
}

/** 0 for a process of another group. The name, which may hold blanks, is in brackets: the group is third behind it. */
async function residentBytesIn(group: number, pid: string): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return Number(fields[2]) === group ? Number(fields[21]) * pageBytes : 0;
}

function yieldToOthers(pid: number | undefined): void {
  try {
    if (pid !== undefined) setPriority(pid, niceness);
  } catch {
    // It has ended already, which its caller hears.
  }
}
