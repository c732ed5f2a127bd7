import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { setPriority } from 'node:os';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { z } from 'zod';
import { AppError, appError } from '#src/errors.ts';
import { type ParserSandbox, usualPath } from '../parser-sandbox.ts';
import { type ConversionLimits, wallsAtMost } from './conversion-limits.ts';

const projectFolder = join(import.meta.dirname, '../../..');
/** All that a parser may read besides its file: itself and its packages. */
const readableCode = ['src/adapters/converter', 'src/domain', 'src/errors.ts', 'node_modules', 'package.json'];

/**
 * The command of a parser that runs on Node. It may read its files, which are absolute and no links, and nothing else.
 * Node enforces that for JavaScript everywhere, and the sandbox for native code, too, where the system has one.
 */
export function parserCommand(parser: {
  sandbox: ParserSandbox;
  script: string;
  args: string[];
  readable: string[];
  hasNativeCode?: boolean;
  limits: Pick<ConversionLimits, 'heapMiB'>;
}): { command: string; args: string[] } {
  const readable = [...parser.readable, ...readableCode.map((name) => join(projectFolder, name))];
  const node = [
    '--permission',
    ...(parser.hasNativeCode ? ['--allow-addons'] : []),
    ...readable.map((name) => `--allow-fs-read=${name}`),
    `--max-old-space-size=${parser.limits.heapMiB}`,
  ];
  const [command, ...args] = parser.sandbox.confine([process.execPath, ...node, parser.script, ...parser.args], {
    read: readable,
  });
  return { command, args };
}

/** How often the memory of a parser is looked at: a PDF bomb can take gigabytes within a second. */
const watchEveryMs = 50;
/** Of the memory that it may have, where it is ended: it takes more until that is seen. */
const shareOfMemory = 0.9;
const keptErrorOutput = 4_000;
/** How often the output of a process that has exited is checked for more. */
const drainEveryMs = 50;
/** Of `/proc/<pid>/stat`, on every Linux. */
const msPerTick = 10;
/** Enough to find python3; nothing else of our environment, where the secrets are, reaches a parser. */
const parserEnvironment = { PATH: usualPath, LANG: 'C.UTF-8' };

/** A parser takes a core for as long as it is let, and somebody waits for every other process of ours. */
const niceness = 10;

/** What every parser process may say besides its results. */
const ready = z.strictObject({ ready: z.literal(true) });
const refusal = z.strictObject({
  error: z.enum(['unsupported_format', 'encrypted_document', 'corrupt_document', 'empty_document', 'too_large']),
  detail: z.string(),
});

type ParserProcess = {
  command: string;
  args: string[];
  /** Any readable folder: parsers get all paths absolute. */
  workingDirectory: string;
  limits: Pick<ConversionLimits, 'wallMs' | 'processMemoryBytes' | 'outputBytes'>;
  signal: AbortSignal;
  /** What the process reads; nothing without it. */
  input?: Readable;
} & (
  | {
      /** One call for each line of JSON that the process writes, in order. What it throws ends the process. */
      onMessage: (message: unknown) => void;
      /** The wall time is that of each message, and not of all. */
      isWallPerMessage?: boolean;
    }
  | {
      /** Takes what the process writes, as it is. Whoever reads it has a wall time, and ends this one with itself. */
      output: Writable;
    }
);

/**
 * Runs a parser over a file that nobody vouches for. It gets none of our environment, and it dies when it
 * uses too much time, memory or output, or when the signal fires. However it ends, the caller only sees an error.
 *
 * @throws AppError with the code that the parser names; else conversion_timeout, too_large or corrupt_document by the
 * way it died; corrupt_document also for what it says that is no JSON, or what onMessage throws that is no AppError
 * @throws Error when the parser did not even start: then the installation is broken, not the file
 * @throws the signal's reason after an abort
 */
export async function runParserProcess(run: ParserProcess): Promise<void> {
  run.signal.throwIfAborted();
  const child = spawn(run.command, run.args, { cwd: run.workingDirectory, env: parserEnvironment });
  yieldToOthers(child);
  let isReady = 'output' in run;
  let failure: unknown;
  const end = (reason: unknown) => {
    failure ??= reason;
    child.kill('SIGKILL');
  };

  const onAbort = () => end(run.signal.reason);
  run.signal.addEventListener('abort', onAbort);
  const isWallPerMessage = 'onMessage' in run && run.isWallPerMessage === true;
  let walls = 0;
  let usedBefore: Promise<number> = Promise.resolve(0);
  const wall = setTimeout(async () => {
    if ('output' in run) return;
    walls += 1;
    const usedMs = await cpuMs(child).then(
      async (ms) => ms - (await usedBefore),
      () => undefined,
    );
    if (usedMs === undefined) return;
    if (usedMs < run.limits.wallMs / 2 && walls < wallsAtMost) return void wall.refresh();
    const what = isWallPerMessage ? 'A page' : 'The file';
    const seconds = Math.round((walls * run.limits.wallMs) / 1_000);
    end(appError('conversion_timeout', { detail: `${what} was not converted within ${seconds} seconds.` }));
  }, run.limits.wallMs);
  const beginWallAnew = () => {
    walls = 0;
    usedBefore = cpuMs(child).catch(() => 0);
    wall.refresh();
  };
  const watch = setInterval(async () => {
    const bytes = await residentBytes(child).catch(() => 0);
    if (bytes > run.limits.processMemoryBytes * shareOfMemory) end(tooMuchMemory());
  }, watchEveryMs);

  let errorOutput = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errorOutput = (errorOutput + text).slice(-keptErrorOutput);
  });
  const hear = (message: unknown, onMessage: (message: unknown) => void) => {
    const refused = refusal.safeParse(message);
    if (isWallPerMessage) beginWallAnew();
    if (ready.safeParse(message).success) isReady = true;
    else if (refused.success) end(appError(refused.data.error, { detail: refused.data.detail }));
    else onMessage(message);
  };
  // A stream that breaks off does so because one of its processes ended, which is heard from that one.
  if ('output' in run) pipeline(child.stdout, run.output).catch(() => undefined);
  else {
    const endOfLines = (reason: unknown) =>
      end(isReady && !(reason instanceof AppError) ? damaged('what it holds makes no sense', reason) : reason);
    readJsonLines(child, run.limits.outputBytes, endOfLines, (message) => hear(message, run.onMessage));
  }
  if (run.input) pipeline(run.input, child.stdin).catch(() => undefined);
  else child.stdin.end();

  try {
    const exit = await new Promise<string | null>((resolve, reject) => {
      child.once('error', reject);
      child.once('exit', () => {
        for (const stream of [child.stdout, child.stderr]) void closeAfterExit(stream, () => failure !== undefined);
      });
      child.once('close', (code, signal) => resolve(code === 0 ? null : `${signal ?? `exit code ${code}`}`));
    });
    if (failure) throw failure;
    if (exit) throw deathOf(exit, errorOutput, isReady);
  } finally {
    clearTimeout(wall);
    clearInterval(watch);
    run.signal.removeEventListener('abort', onAbort);
  }
}

/**
 * Closes an output stream of a process that has exited, because a child of it can hold the stream open. What the process
 * wrote can be read at once: if the stream flows and a whole turn of the event loop brings no data, nothing is left.
 */
async function closeAfterExit(stream: Readable, wasKilled: () => boolean): Promise<void> {
  let isDrained = false;
  stream.on('data', () => {
    isDrained = false;
  });
  while (!isDrained && !wasKilled() && !stream.destroyed) {
    isDrained = !stream.isPaused();
    // Data is read after timers run and before immediates do.
    await new Promise((resolve) => setTimeout(() => setImmediate(resolve), drainEveryMs));
  }
  // An end instead of a premature close, so that a reader still gets what is buffered behind the stream.
  if (isDrained) stream.push(null);
  else stream.destroy();
}

function readJsonLines(
  child: ChildProcess,
  outputBytes: number,
  end: (reason: unknown) => void,
  onMessage: (message: unknown) => void,
): void {
  let received = 0;
  let pending: Buffer[] = [];
  child.stdout?.on('data', (chunk: Buffer) => {
    received += chunk.length;
    if (received > outputBytes) return end(appError('too_large', { detail: 'The file holds too much text.' }));
    try {
      let start = 0;
      for (let stop = chunk.indexOf(10); stop >= 0; stop = chunk.indexOf(10, start)) {
        const line = Buffer.concat([...pending, chunk.subarray(start, stop)]);
        pending = [];
        start = stop + 1;
        onMessage(JSON.parse(line.toString()));
      }
      pending.push(chunk.subarray(start));
    } catch (reason) {
      end(reason);
    }
  });
}

function deathOf(exit: string, errorOutput: string, wasReady: boolean): Error {
  const cause = new Error(`The parser ended with ${exit}: ${errorOutput.trim()}`);
  if (!wasReady) return cause;
  // Others that abort say why: V8, Python, and the C library of memory that is broken.
  const isSilentAbort = exit === 'SIGABRT' && errorOutput === '';
  return isSilentAbort || /heap out of memory|MemoryError|bad_alloc/.test(errorOutput)
    ? tooMuchMemory(cause)
    : damaged('reading it failed', cause);
}

function damaged(why: string, cause: unknown): AppError {
  return appError('corrupt_document', { detail: `The file is damaged: ${why}.`, cause });
}

function tooMuchMemory(cause?: Error): AppError {
  return appError('too_large', { detail: 'Reading the file takes more memory than is allowed.', cause });
}

async function residentBytes(child: ChildProcess): Promise<number> {
  if (process.platform === 'linux') {
    const status = await readFile(`/proc/${child.pid}/status`, 'utf8');
    return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1] ?? 0) * 1024;
  }
  const { stdout } = await promisify(execFile)('ps', ['-o', 'rss=', '-p', String(child.pid)]);
  return Number(stdout) * 1024;
}

async function cpuMs({ pid }: ChildProcess): Promise<number> {
  if (process.platform === 'linux') {
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
    // Its name, which may hold blanks, is in brackets.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return (Number(fields[11]) + Number(fields[12])) * msPerTick;
  }
  const { stdout } = await promisify(execFile)('ps', ['-o', 'cputime=', '-p', String(pid)]);
  return stdout.split(':').reduce((sum, part) => sum * 60 + Number(part), 0) * 1_000;
}

function yieldToOthers({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) setPriority(pid, niceness);
  } catch {
    // It has ended already, which its caller hears.
  }
}
