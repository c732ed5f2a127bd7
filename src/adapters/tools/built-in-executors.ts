import { spawn } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { z } from 'zod';
import { isUrlInTexts } from '#src/domain/chat/urls.ts';
import { charsetOfMediaType, mediaTypeWithoutParameters } from '#src/domain/documents/formats.ts';
import { namesOfWebDocument } from '#src/domain/documents/web-document.ts';
import { appError } from '#src/errors.ts';
import type { DocumentConverter } from '#src/ports/documents.ts';
import type { ToolExecutor } from '#src/ports/tools.ts';
import type { WebFetcher } from '#src/ports/web.ts';
import { makeTemporaryFolder } from '#src/temporary-folders.ts';
import { createFairWorkQueue } from '../limits.ts';
import type { ParserSandbox } from '../parser-sandbox.ts';

export function createBuiltInExecutors(deps: {
  web: WebFetcher;
  converter: DocumentConverter;
  tempDir: string;
  sandbox: ParserSandbox;
  httpRequestAllow: readonly string[];
}): ReadonlyMap<string, ToolExecutor> {
  const { web, httpRequestAllow: allow } = deps;
  return new Map([
    ['web.fetch', createWebFetchTool(deps)],
    ['http.request', createHttpRequestTool({ web, allow })],
    ['time.now', createTimeTool()],
    ['math.evaluate', createMathTool(deps)],
  ]);
}

const timeArguments = z.object({ time_zone: z.string().default('UTC') });

/** The tool `time.now`. Returns for example `Sunday, 2026-11-22 15:04:05 GMT+01:00 (Europe/Berlin)`. */
export function createTimeTool(now: () => Date = () => new Date()): ToolExecutor {
  return async (args) => {
    const { time_zone: timeZone } = timeArguments.parse(args);
    // The Swedish locale formats times as ISO 8601.
    const time = format('sv-SE', timeZone, { dateStyle: 'short', timeStyle: 'medium' });
    const day = format('en-GB', timeZone, { weekday: 'long' });
    const offset = format('en-GB', timeZone, { timeZoneName: 'longOffset' }).split(', ').at(-1);
    return `${day}, ${time} ${offset} (${timeZone})`;
  };

  function format(locale: string, timeZone: string, options: Intl.DateTimeFormatOptions): string {
    try {
      return new Intl.DateTimeFormat(locale, { ...options, timeZone }).format(now());
    } catch {
      throw appError('tool_arguments_invalid', {
        detail: 'time_zone must be an IANA time zone such as Europe/Berlin.',
      });
    }
  }
}

const maxResponseBytes = 1024 * 1024;
const urlArguments = z.object({ url: z.string() });

/** The tool `http.request`: only GET to hosts in `allow`. Sends no credentials, because every user could use them. */
export function createHttpRequestTool(deps: { web: WebFetcher; allow: readonly string[] }): ToolExecutor {
  const allowed = new Set(deps.allow.map((host) => host.toLowerCase()));

  return async (args, { signal }) => {
    const { url } = urlArguments.parse(args);
    const permits = ({ host }: URL) => allowed.has(host);
    const { mediaType, content } = await deps.web.fetch(url, {
      limitBytes: maxResponseBytes,
      accept: 'application/json,*/*;q=0.5',
      signal,
      permits,
    });
    if (!isText(mediaType)) {
      content.destroy();
      throw appError('unsupported_format', { detail: 'The response is not text.' });
    }
    return text(content);
  };
}

function isText(mediaType: string): boolean {
  return /^text\/|[/+](?:json|xml|yaml|x-ndjson|javascript)$/.test(mediaTypeWithoutParameters(mediaType));
}

const accept = 'text/html,application/xhtml+xml,text/markdown;q=0.9,text/plain;q=0.8,application/pdf;q=0.7,*/*;q=0.1';
/** Size limit of a fetched page; small, because a user waits for the page and the model only reads its beginning. */
const maxPageBytes = 5 * 1024 * 1024;

/**
 * The tool `web.fetch`: fetches only URLs that the user or a web search gave, because a URL that the model invented
 * could leak the chat.
 */
function createWebFetchTool(deps: { web: WebFetcher; converter: DocumentConverter; tempDir: string }): ToolExecutor {
  const { web, converter, tempDir } = deps;

  return async (args, { actor, trustedTexts, signal }) => {
    const { url } = urlArguments.parse(args);
    if (!isUrlInTexts(url, trustedTexts)) {
      throw appError('untrusted_argument', {
        detail: 'Only URLs that the user wrote, or that a web search found for this answer, can be fetched.',
      });
    }
    const address = /^https?:\/\//i.test(url) ? url : `https://${url}`;
    const { finalUrl, mediaType, fileName, content } = await web.fetch(address, {
      limitBytes: maxPageBytes,
      accept,
      signal,
    });
    const folder = await makeTemporaryFolder(tempDir, 'page').catch((error: unknown) => {
      content.destroy();
      throw error;
    });
    try {
      const path = join(folder, 'page');
      await pipeline(content, createWriteStream(path), { signal });
      const names = namesOfWebDocument({ finalUrl, mediaType, fileName, title: null });
      const source = { path, fileName: names.fileName };
      const format = await converter.detect({ ...source, declaredMediaType: mediaType });
      const { orgId } = actor;
      const encoding = charsetOfMediaType(mediaType);
      const { title, body } = await converter.convert({ ...source, orgId, format, encoding, signal });
      return [title, body]
        .filter((text) => text !== null && !(text === title && body.startsWith(`# ${title}`)))
        .join('\n\n');
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  };
}

const script = join(import.meta.dirname, 'math-process.ts');
const projectFolder = join(import.meta.dirname, '../../..');
const readable = [script, join(projectFolder, 'node_modules'), join(projectFolder, 'package.json')];
/**
 * CPU time limit of a calculation; a wall time limit would also count CPU contention. The start of the process alone
 * takes 300 ms.
 */
const longestCpuSeconds = 3;
const heapMiB = 64;
/**
 * Maximum calculations of an organization that wait: as many as two chat answers may request. Further ones would time
 * out anyway.
 */
const maxWaitingPerOwner = 12;

const argumentsOf = z.object({ expression: z.string() });
const answer = z.union([z.strictObject({ result: z.string() }), z.strictObject({ error: z.string() })]);

/** The tool `math.evaluate`: a child process without files, environment and network, killed at its limits. */
export function createMathTool(deps: { sandbox: ParserSandbox; cpuSeconds?: number }): ToolExecutor {
  const { sandbox, cpuSeconds = longestCpuSeconds } = deps;
  // Calculations run one at a time, because each can use a whole core.
  const refusal = () => appError('tool_failed', { detail: 'Too many calculations of your organization are waiting.' });
  const inTurn = createFairWorkQueue(1, { bound: { maxWaitingPerOwner, refusal } });

  return (args, { actor, signal }) =>
    inTurn(actor.orgId, async () => {
      const { expression } = argumentsOf.parse(args);
      const output = await calculate(expression, { sandbox, signal, cpuSeconds });
      if (output === null) {
        signal.throwIfAborted();
        throw appError('tool_arguments_invalid', { detail: 'The calculation exceeds the time or memory limit.' });
      }
      const said = answer.parse(JSON.parse(output));
      if ('error' in said) throw appError('tool_arguments_invalid', { detail: said.error });
      return said.result;
    });
}

async function calculate(
  expression: string,
  { sandbox, signal, cpuSeconds }: { sandbox: ParserSandbox; signal: AbortSignal; cpuSeconds: number },
): Promise<string | null> {
  signal.throwIfAborted();
  const flags = [
    '--permission',
    ...readable.map((path) => `--allow-fs-read=${path}`),
    `--max-old-space-size=${heapMiB}`,
  ];
  const limited = ['/bin/sh', '-c', `ulimit -t ${cpuSeconds}; exec "$0" "$@"`] as const;
  const [program, ...args] = sandbox.confine([...limited, process.execPath, ...flags, script], { read: readable });
  const child = spawn(program, args, { env: {}, cwd: '/', stdio: ['pipe', 'pipe', 'ignore'] });
  const kill = () => {
    child.kill('SIGKILL');
    // A child of the killed shell may keep the pipe open.
    child.stdout.destroy();
  };
  signal.addEventListener('abort', kill);
  child.stdin.on('error', () => undefined).end(expression);
  try {
    const ended = new Promise<number | null>((resolve, reject) => child.once('error', reject).once('close', resolve));
    const [code, output] = await Promise.all([ended, text(child.stdout).catch(() => null)]);
    return code === 0 ? output : null;
  } finally {
    signal.removeEventListener('abort', kill);
  }
}
