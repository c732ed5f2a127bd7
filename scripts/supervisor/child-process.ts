import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import type { ChildSpec } from './child-spec.ts';
import { dieWithParent } from './parent-death.ts';

const TAIL_BYTES = 16 * 1024;
const TAIL_LINES = 20;

export type RunningChild = {
  pid: number;
  /** Resolves once with the reason of the end: `exit code 1`, `SIGKILL`, or the error of a failed start. */
  ended: Promise<string>;
  lastLines: () => string[];
  /** Sends the stop signal, and SIGKILL after the stop timeout. */
  stop: () => Promise<void>;
};

/** Starts the process in its own process group. Its output is appended to the log file. */
export function startChild(spec: ChildSpec, logPath: string): RunningChild {
  const log = openSync(logPath, 'a');
  const logStart = fstatSync(log).size;
  const [program, ...args] = dieWithParent(spec.command, spec.stopSignal);
  const child = spawn(program, args, {
    env: spec.env,
    stdio: ['ignore', log, log],
    detached: true,
    ...spec.user,
  });
  closeSync(log);
  const pid = child.pid ?? -1;
  const ended = endOf(child).finally(() => signalGroup(pid, 'SIGKILL'));

  return {
    pid,
    ended,
    lastLines: () => tail(logPath, logStart),
    stop: async () => {
      child.kill(spec.stopSignal);
      const patience = new AbortController();
      const late = delay(spec.stopTimeoutMs, 'late', { signal: patience.signal }).catch(() => 'ended');
      if ((await Promise.race([ended, late])) === 'late') signalGroup(pid, 'SIGKILL');
      await ended;
      patience.abort();
    },
  };
}

async function endOf(child: ChildProcess): Promise<string> {
  try {
    const [code, signal] = await once(child, 'exit');
    return typeof signal === 'string' ? signal : `exit code ${code}`;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** Signals all processes of the group that `pid` leads; ignores a group that has ended. */
export function signalGroup(pid: number, signal: NodeJS.Signals): void {
  if (pid <= 0) return;
  try {
    process.kill(-pid, signal);
  } catch {}
}

function tail(path: string, from: number): string[] {
  const file = openSync(path, 'r');
  try {
    const end = fstatSync(file).size;
    // A log that was rotated meanwhile is shorter than at the start.
    const start = Math.max(end < from ? 0 : from, end - TAIL_BYTES);
    const buffer = Buffer.alloc(end - start);
    readSync(file, buffer, 0, buffer.length, start);
    const lines = buffer.toString('utf8').split('\n');
    return lines.filter((line) => line.trim() !== '').slice(-TAIL_LINES);
  } finally {
    closeSync(file);
  }
}
