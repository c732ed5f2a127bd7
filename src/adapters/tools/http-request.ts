import { text } from 'node:stream/consumers';
import { z } from 'zod';
import { bareMediaType } from '#src/domain/documents/formats.ts';
import { appError } from '#src/errors.ts';
import type { ToolExecutor } from '#src/ports/tools.ts';
import type { WebFetcher } from '#src/ports/web.ts';

const limitBytes = 1024 * 1024;
const argumentsOf = z.object({ url: z.string() });

/**
 * `http.request`: what a service answers to a GET. Neither methods that change something nor credentials, which every
 * chat with the agent would have.
 * @param deps.allow hosts, with their ports where those are not the usual ones; redirects lead to no others
 */
export function createHttpRequestTool(deps: { web: WebFetcher; allow: readonly string[] }): ToolExecutor {
  const allowed = new Set(deps.allow.map((host) => host.toLowerCase()));

  return async (args, { signal }) => {
    const { url } = argumentsOf.parse(args);
    const permits = ({ host }: URL) => allowed.has(host);
    const { mediaType, content } = await deps.web.fetch(url, {
      limitBytes,
      accept: 'application/json,*/*;q=0.5',
      signal,
      permits,
    });
    if (!isText(mediaType)) {
      content.destroy();
      throw appError('unsupported_format', { detail: 'What it answers is no text.' });
    }
    return text(content);
  };
}

function isText(mediaType: string): boolean {
  return /^text\/|[/+](?:json|xml|yaml|x-ndjson|javascript)$/.test(bareMediaType(mediaType));
}
