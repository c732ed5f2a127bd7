import { createWriteStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { z } from 'zod';
import { standsIn } from '#src/domain/chat/urls.ts';
import { charsetOf } from '#src/domain/documents/formats.ts';
import { webDocumentNames } from '#src/domain/documents/web-document.ts';
import { appError } from '#src/errors.ts';
import type { Converter } from '#src/ports/documents.ts';
import type { ToolExecutor } from '#src/ports/tools.ts';
import type { WebFetcher } from '#src/ports/web.ts';
import { makeTemporaryFolder } from '#src/temporary-folders.ts';

const accept = 'text/html,application/xhtml+xml,text/markdown;q=0.9,text/plain;q=0.8,application/pdf;q=0.7,*/*;q=0.1';
/** Somebody waits for it, and its beginning is all that a model gets. */
const limitBytes = 5 * 1024 * 1024;

const argumentsOf = z.object({ url: z.string() });

/**
 * `web.fetch`: the text of what is at an address, read as documents are. Throws `untrusted_argument` for an address that
 * no person has written and no search has found: one out of a document, or made up by the model, may carry away what
 * the conversation holds.
 */
export function createWebFetchTool(deps: { web: WebFetcher; converter: Converter; tempDir: string }): ToolExecutor {
  const { web, converter, tempDir } = deps;

  return async (args, { actor, trustedTexts, signal }) => {
    const { url } = argumentsOf.parse(args);
    if (!standsIn(url, trustedTexts)) {
      throw appError('untrusted_argument', {
        detail:
          'Only an address that the user has written out, or that a web search has found in this answer, is read.',
      });
    }
    const address = /^https?:\/\//i.test(url) ? url : `https://${url}`;
    const { finalUrl, mediaType, fileName, content } = await web.fetch(address, { limitBytes, accept, signal });
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
