import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { setPriority } from 'node:os';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { z } from 'zod';
import { AppError, appError } from '#src/errors.ts';
import { type ParserSandbox, programSearchPath } from '../parser-sandbox.ts';
import { type ConversionProcessLimits, maxParserTimeExtensions } from './conversion-limits.ts';

const projectFolder = join(import.meta.dirname, '../../..');
const readableCode = ['src/adapters/converter', 'src/domain', 'src/errors.ts', 'node_modules', 'package.json'];

/**
 * Command for a parser that runs in Node. It may read only `readable` (absolute paths, no symlinks) and its own code.
 * Node's permission model confines JavaScript; the sandbox, where the system has one, also confines native code.
 */
export function sandboxedNodeCommand(parser: {
  sandbox: ParserSandbox;
  script: string;
  args: string[];
  readable: string[];
  hasNativeCode?: boolean;
  limits: Pick<ConversionProcessLimits, 'heapMiB'>;
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

/** Interval of memory checks: a PDF bomb can take gigabytes within a second. */
const memoryCheckEveryMs = 50;
/** A parser is killed at this share of its memory limit, because its memory may grow further until the next check. */
const killAtMemoryShare = 0.9;
const maxErrorOutputLength = 4_000;
const drainEveryMs = 50;
/** Duration of a clock tick in `/proc/<pid>/stat`, which is 10 ms on every Linux. */
const msPerTick = 10;
/** Parsers get no environment variables of the service, because these hold secrets. PATH is needed to find python3. */
const parserEnvironment = { PATH: programSearchPath, LANG: 'C.UTF-8' };

/** Parsers run at low CPU priority, so that the service's other processes answer requests first. */
const niceness = 10;

const ready = z.strictObject({ ready: z.literal(true) });
const done = z.strictObject({ done: z.literal(true) });
const refusal = z.strictObject({
  error: z.enum(['unsupported_format', 'encrypted_document', 'corrupt_document', 'empty_document', 'too_large']),
  detail: z.string(),
});

type ParserRun = {
  limits: Pick<ConversionProcessLimits, 'wallMs' | 'processMemoryBytes' | 'outputBytes'>;
  signal: AbortSignal;
} & (
  | {
      /** Called for each line of JSON on stdout, in order. If it throws, the parser is killed. */
      onMessage: (message: unknown) => void;
      /** Restarts the wall time limit with each message instead of applying it to the whole run. */
      isWallPerMessage?: boolean;
      /** The run ends at the message `{ "done": true }` and leaves the process alive, instead of at the process's exit. */
      isReusable?: boolean;
    }
  | {
      /**
       * Receives the parser's stdout unparsed. The stream's consumer must have its own wall time limit and abort the
       * parser.
       */
      output: Writable;
    }
);

type ParserCommand = { command: string; args: string[]; workingDirectory: string };

export type ParserProcess = ReturnType<typeof startParserProcess>;

/** Starts a parser without the service's environment. Its stdin stays open. */
export function startParserProcess({ command, args, workingDirectory }: ParserCommand) {
  const child = spawn(command, args, { cwd: workingDirectory, env: parserEnvironment });
  lowerPriority(child);
  let errorOutput = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errorOutput = (errorOutput + text).slice(-maxErrorOutputLength);
  });
  const exited = new Promise<string>((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', () => {
      for (const stream of [child.stdout, child.stderr]) void closeAfterExit(stream, () => child.killed);
    });
    child.once('close', (code, signal) => resolve(signal ?? `exit code ${code}`));
  });
  // An idle parser may exit without a run that awaits it.
  exited.catch(() => undefined);
  // The pipe breaks if the process dies while it is written to; its exit reports that.
  child.stdin.on('error', () => undefined);
  return { child, exited, errorOutput: () => errorOutput };
}

/**
 * Runs a parser over an untrusted file, without the service's environment and within its limits.
 * @throws AppError with the parser's own code; otherwise conversion_timeout, too_large or corrupt_document depending on
 * how the process ended
 * @throws Error when the parser failed before it reported `ready`: the installation is broken, not the file
 * @throws the signal's reason after an abort
 */
export async function runParserProcess(run: ParserCommand & ParserRun & { input?: Readable }): Promise<void> {
  run.signal.throwIfAborted();
  const parser = startParserProcess(run);
  if (run.input) pipeline(run.input, parser.child.stdin).catch(() => undefined);
  else parser.child.stdin.end();
  await superviseParser(parser, run);
}

/** Watches a parser's limits and reads its output until the run ends. Throws as `runParserProcess`. */
export async function superviseParser({ child, exited, errorOutput }: ParserProcess, run: ParserRun): Promise<void> {
  run.signal.throwIfAborted();
  let isReady = 'output' in run;
  let failure: unknown;
  const end = (reason: unknown) => {
    failure ??= reason;
    child.kill('SIGKILL');
  };

  const onAbort = () => end(run.signal.reason);
  run.signal.addEventListener('abort', onAbort);
  const isWallPerMessage = 'onMessage' in run && run.isWallPerMessage === true;
  const isReusable = 'onMessage' in run && run.isReusable === true;
  let wallPeriods = 0;
  let cpuMsBefore = cpuMs(child).catch(() => 0);
  const wall = setTimeout(async () => {
    if ('output' in run) return;
    wallPeriods += 1;
    const usedMs = await cpuMs(child).then(
      async (ms) => ms - (await cpuMsBefore),
      () => undefined,
    );
    if (usedMs === undefined) return;
    if (usedMs < run.limits.wallMs / 2 && wallPeriods < maxParserTimeExtensions) return void wall.refresh();
    const subject = isWallPerMessage ? 'A page' : 'The file';
    const seconds = Math.round((wallPeriods * run.limits.wallMs) / 1_000);
    end(appError('conversion_timeout', { detail: `${subject} was not converted within ${seconds} seconds.` }));
  }, run.limits.wallMs);
  const restartWallTimer = () => {
    wallPeriods = 0;
    cpuMsBefore = cpuMs(child).catch(() => 0);
    wall.refresh();
  };
  const watch = setInterval(async () => {
    const bytes = await residentBytes(child).catch(() => 0);
    if (bytes > run.limits.processMemoryBytes * killAtMemoryShare) end(memoryExceeded());
  }, memoryCheckEveryMs);

  const finished = Promise.withResolvers<'done'>();
  const handleMessage = (message: unknown, onMessage: (message: unknown) => void) => {
    const refused = refusal.safeParse(message);
    if (isWallPerMessage) restartWallTimer();
    if (ready.safeParse(message).success) isReady = true;
    else if (refused.success) end(appError(refused.data.error, { detail: refused.data.detail }));
    else if (isReusable && done.safeParse(message).success) finished.resolve('done');
    else onMessage(message);
  };
  // Errors of the pipe are ignored: if the process that reads the output dies, its own run reports that.
  let stopReading = () => {};
  if ('output' in run) pipeline(child.stdout, run.output).catch(() => undefined);
  else {
    const endByOutput = (reason: unknown) =>
      end(isReady && !(reason instanceof AppError) ? damaged('its content is invalid', reason) : reason);
    stopReading = readJsonLines(child, run.limits.outputBytes, endByOutput, (message) =>
      handleMessage(message, run.onMessage),
    );
  }

  try {
    const exit = await Promise.race([exited, finished.promise]);
    if (failure) throw failure;
    const isSuccess = exit === (isReusable ? 'done' : 'exit code 0');
    if (!isSuccess) throw exitError(exit, errorOutput(), isReady);
  } finally {
    clearTimeout(wall);
    clearInterval(watch);
    stopReading();
    run.signal.removeEventListener('abort', onAbort);
  }
}

/**
 * Closes an output stream of an exited process, because a grandchild can keep it open. The process wrote all its output
 * before it exited: if the stream flows and an iteration of the event loop brings no data, nothing is left.
 */
async function closeAfterExit(stream: Readable, wasKilled: () => boolean): Promise<void> {
  let isDrained = false;
  stream.on('data', () => {
    isDrained = false;
  });
  while (!isDrained && !wasKilled() && !stream.destroyed) {
    isDrained = !stream.isPaused();
    // Waits for a timer and then an immediate: in between, the event loop reads what is left of the process's output.
    await new Promise((resolve) => setTimeout(() => setImmediate(resolve), drainEveryMs));
  }
  // Ends the stream normally instead of destroying it, so that its consumer still gets buffered data.
  if (isDrained) stream.push(null);
  else stream.destroy();
}

function readJsonLines(
  child: ChildProcess,
  outputBytes: number,
  end: (reason: unknown) => void,
  onMessage: (message: unknown) => void,
): () => void {
  let received = 0;
  let pending: Buffer[] = [];
  const read = (chunk: Buffer) => {
    received += chunk.length;
    if (received > outputBytes)
      return end(
        appError('too_large', {
          detail: `The file has too much text: its parser may output at most ${outputBytes} bytes.`,
        }),
      );
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
  };
  child.stdout?.on('data', read);
  return () => void child.stdout?.off('data', read);
}

function exitError(exit: string, errorOutput: string, wasReady: boolean): Error {
  const cause = new Error(`The parser process ended with ${exit}: ${errorOutput.trim()}`);
  if (!wasReady) return cause;
  // PDFium aborts without a message when it runs out of memory; V8, Python and glibc print a message when they abort.
  const isSilentAbort = exit === 'SIGABRT' && errorOutput === '';
  return isSilentAbort || /heap out of memory|MemoryError|bad_alloc/.test(errorOutput)
    ? memoryExceeded(cause)
    : damaged('reading it failed', cause);
}

function damaged(why: string, cause: unknown): AppError {
  return appError('corrupt_document', { detail: `The file is damaged: ${why}.`, cause });
}

function memoryExceeded(cause?: Error): AppError {
  return appError('too_large', { detail: 'Reading the file exceeds the memory limit of its parser.', cause });
}

export async function residentBytes(child: Pick<ChildProcess, 'pid'>): Promise<number> {
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
    // Counts the fields of `/proc/<pid>/stat` from the `)` on, because the process name in brackets may contain spaces.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return (Number(fields[11]) + Number(fields[12])) * msPerTick;
  }
  const { stdout } = await promisify(execFile)('ps', ['-o', 'cputime=', '-p', String(pid)]);
  return stdout.split(':').reduce((sum, part) => sum * 60 + Number(part), 0) * 1_000;
}

function lowerPriority({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) setPriority(pid, niceness);
  } catch {
    // The priority of a parser that has exited cannot be changed; runParserProcess reports the exit.
  }
}
