import { copyFile, link, realpath, rm } from 'node:fs/promises';
import { Socket } from 'node:net';
import { join } from 'node:path';
import { AppError } from '#src/errors.ts';
import { makeTemporaryFolder } from '#src/temporary-folders.ts';
import type { ConversionProcessLimits } from './conversion-limits.ts';
import { type ParserProcess, residentBytes, startParserProcess, superviseParser } from './parser-process.ts';

const MiB = 1024 ** 2;

/** How long a parser waits for another file before it ends. */
const idleMs = 10_000;
/** A parser is replaced after this many files, so that what a library leaks does not add up. */
const maxFilesPerParser = 100;
/** A parser that holds more than this after a file is not kept. */
const maxIdleBytes = 150 * MiB;

/** Failures that an earlier file may have caused: what it damaged or filled is still in memory. */
const maybeOfEarlierFile: ReadonlySet<string> = new Set(['corrupt_document', 'too_large']);

type WarmParser = ParserProcess & { folder: string; path: string; orgId: string; kind: string; files: number };

type ParserJob = {
  orgId: string;
  /** Parsers of one kind are started by the same command. */
  kind: 'pdf' | 'node';
  path: string;
  /** Command of a parser that reads requests as lines of JSON from stdin and files from `folder` only. */
  command: (folder: string) => { command: string; args: string[] };
  /** What the parser has to know of the file, beside its path. */
  request: Record<string, unknown>;
  /** Returns the handler of the parser's messages. It is called again if the file is read a second time. */
  begin: () => (message: unknown) => void;
  limits: ConversionProcessLimits;
  signal: AbortSignal;
};

export type ParserPool = (job: ParserJob) => Promise<void>;

/**
 * Runs parsers that stay for further files, because a start takes longer than reading a small file. A parser reads one
 * file at a time and only files of one organization. One that failed in any way is ended. If it had read other files
 * before and one of these may be to blame, a new parser reads the file again.
 * @param deps.maxIdle how many parsers may wait for another file
 */
export function createParserPool({ tempDir, maxIdle }: { tempDir: string; maxIdle: number }): ParserPool {
  const idle = new Map<WarmParser, NodeJS.Timeout>();

  return async (job) => {
    const warm = takeIdle(job);
    if (warm !== undefined) {
      try {
        return await run(warm, job);
      } catch (error) {
        if (job.signal.aborted || (error instanceof AppError && !maybeOfEarlierFile.has(error.code))) throw error;
      }
    }
    await run(await start(job), job);
  };

  function takeIdle({ orgId, kind }: ParserJob): WarmParser | undefined {
    const parser = [...idle.keys()].findLast((found) => found.orgId === orgId && found.kind === kind);
    if (parser === undefined) return undefined;
    forget(parser);
    keepEventLoopAlive(parser, true);
    return parser;
  }

  async function start({ orgId, kind, command, signal }: ParserJob): Promise<WarmParser> {
    signal.throwIfAborted();
    const folder = await realpath(await makeTemporaryFolder(tempDir, 'parser'));
    const parser = startParserProcess({ ...command(folder), workingDirectory: tempDir });
    const warm = { ...parser, folder, path: join(folder, 'document'), orgId, kind, files: 0 };
    void parser.exited
      .catch(() => undefined)
      .then(() => {
        forget(warm);
        return rm(folder, { recursive: true, force: true });
      });
    return warm;
  }

  async function run(parser: WarmParser, { path, request, begin, limits, signal }: ParserJob): Promise<void> {
    try {
      // A link needs no copy. Folders of different file systems have no links between them.
      await link(path, parser.path).catch(() => copyFile(path, parser.path));
      const onMessage = begin();
      const supervised = superviseParser(parser, { limits, signal, onMessage, isReusable: true });
      parser.child.stdin.write(`${JSON.stringify({ ...request, path: parser.path })}\n`);
      await supervised;
      await rm(parser.path, { force: true });
      parser.files += 1;
    } catch (error) {
      end(parser);
      throw error;
    }
    const bytes = await residentBytes(parser.child).catch(() => Number.POSITIVE_INFINITY);
    if (parser.files < maxFilesPerParser && bytes <= maxIdleBytes) keep(parser);
    else end(parser);
  }

  function keep(parser: WarmParser): void {
    idle.set(parser, setTimeout(() => end(parser), idleMs).unref());
    keepEventLoopAlive(parser, false);
    const [oldest] = idle.keys();
    if (idle.size > maxIdle && oldest !== undefined) end(oldest);
  }

  function end(parser: WarmParser): void {
    forget(parser);
    parser.child.kill('SIGKILL');
  }

  function forget(parser: WarmParser): void {
    clearTimeout(idle.get(parser));
    idle.delete(parser);
  }
}

/** An idle parser does not keep its parent alive; it ends with it, because its stdin closes. */
function keepEventLoopAlive({ child }: ParserProcess, isKept: boolean): void {
  const handles = [child, child.stdin, child.stdout, child.stderr];
  for (const handle of handles) {
    if (handle !== child && !(handle instanceof Socket)) continue;
    if (isKept) handle.ref();
    else handle.unref();
  }
}
