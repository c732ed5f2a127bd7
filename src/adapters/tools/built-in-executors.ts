import { createWriteStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { z } from 'zod';
import { containsAddress } from '#src/domain/chat/urls.ts';
import { bareMediaType, charsetOf } from '#src/domain/documents/formats.ts';
import { webDocumentNames } from '#src/domain/documents/web-document.ts';
import { appError } from '#src/errors.ts';
import type { Converter } from '#src/ports/documents.ts';
import type { ToolExecutor } from '#src/ports/tools.ts';
import type { WebFetcher } from '#src/ports/web.ts';
import { makeTemporaryFolder } from '#src/temporary-folders.ts';
import type { ParserSandbox } from '../parser-sandbox.ts';
import { createMathTool } from './math-evaluate.ts';

const timeArguments = z.object({ time_zone: z.string().default('UTC') });

/** `time.now`, such as `Sunday, 2026-11-22 15:04:05 GMT+01:00 (Europe/Berlin)`. */
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

/**
 * `http.request`: the response of a service to a GET. No other methods and no credentials, because every chat with the
 * agent could use them.
 * @param deps.allow hosts, with the port if it is not the default; redirects to other hosts are refused
 */
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
  return /^text\/|[/+](?:json|xml|yaml|x-ndjson|javascript)$/.test(bareMediaType(mediaType));
}

const accept = 'text/html,application/xhtml+xml,text/markdown;q=0.9,text/plain;q=0.8,application/pdf;q=0.7,*/*;q=0.1';
/** A user waits for it, and the model gets only the beginning. */
const maxPageBytes = 5 * 1024 * 1024;

/**
 * `web.fetch`: the text of a web page, converted like a document. Throws `untrusted_argument` for a URL that neither the
 * user wrote nor a search found: a URL from a document, or invented by the model, could leak the conversation.
 */
function createWebFetchTool(deps: { web: WebFetcher; converter: Converter; tempDir: string }): ToolExecutor {
  const { web, converter, tempDir } = deps;

  return async (args, { actor, trustedTexts, signal }) => {
    const { url } = urlArguments.parse(args);
    if (!containsAddress(url, trustedTexts)) {
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
      const names = webDocumentNames({ finalUrl, mediaType, fileName, title: null });
      const source = { path, fileName: names.fileName };
      const format = await converter.detect({ ...source, declaredMediaType: mediaType });
      const { orgId } = actor;
      const encoding = charsetOf(mediaType);
      const { title, body } = await converter.convert({ ...source, orgId, format, encoding, signal });
      return [title, body]
        .filter((text) => text !== null && !(text === title && body.startsWith(`# ${title}`)))
        .join('\n\n');
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  };
}

/** The built-in tools by id, except those over documents, which belong to a chat. */
export function createBuiltInExecutors(deps: {
  web: WebFetcher;
  converter: Converter;
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
