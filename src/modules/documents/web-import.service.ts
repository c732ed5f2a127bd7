import { Readable } from 'node:stream';
import type { RequestActor } from '#src/domain/access/visibility.ts';
import { namesOfWebDocument, publicSourceUrl } from '#src/domain/documents/web-document.ts';
import { appError } from '#src/errors.ts';
import type { TierLimitsService } from '#src/modules/organization/tier-limits.service.ts';
import type { WebFetcher } from '#src/ports/web.ts';
import type { FullDocument } from './documents.model.ts';
import type { DocumentsService } from './documents.service.ts';
import type { UploadsService } from './uploads.service.ts';

const accept = 'text/html,application/xhtml+xml,text/markdown;q=0.9,application/pdf;q=0.9,text/plain;q=0.8,*/*;q=0.5';
/** Time limit of a download: enough for a large file over a slow connection. */
const FETCH_TIMEOUT_MS = 5 * 60_000;
const HEAD_BYTES = 64 * 1024;

export type WebImportService = ReturnType<typeof createWebImportService>;

type WebImportInput = {
  id: string;
  url: string;
  name: string | undefined;
  targetFolderId: string | undefined;
};

export function createWebImportService(deps: {
  web: WebFetcher;
  documents: Pick<DocumentsService, 'find' | 'requireRoom' | 'upload'>;
  uploads: UploadsService;
  limits: Pick<TierLimitsService, 'of'>;
  pageTitle: (head: Buffer, mediaType: string) => string | null;
}) {
  const { web, documents, uploads, limits, pageTitle } = deps;

  return {
    /**
     * Checks access and limits before it fetches the URL. Throws like `DocumentsService.upload`, and `url_not_allowed`,
     * `url_unreachable`, `payload_too_large`, and `empty_document` if the response body is empty.
     */
    async importFromUrl(actor: RequestActor, input: WebImportInput): Promise<FullDocument> {
      // Returns the document of a repeated request without a second fetch: the page may have changed or been deleted.
      const existing = await documents.find(actor, input.id);
      if (existing !== undefined) return existing;
      await documents.requireRoom(actor, input.targetFolderId);
      const { fileSizeBytes } = await limits.of(actor.orgId);
      const source = await web.fetch(input.url, { accept, limitBytes: fileSizeBytes, timeoutMs: FETCH_TIMEOUT_MS });
      const { finalUrl, mediaType, fileName, content } = source;
      const head: Buffer[] = [];
      const names = (title: string | null) => namesOfWebDocument({ finalUrl, mediaType, fileName, title });
      const file = await uploads
        .store(actor, {
          fileName: names(null).fileName,
          mediaType,
          content: Readable.from(keepingHead(content, head)),
        })
        .finally(() => content.destroy());
      try {
        if (file.sizeBytes === 0)
          throw appError('empty_document', { detail: 'The server sent an empty file for this URL.' });
        return await documents.upload(actor, {
          file,
          id: input.id,
          name: input.name ?? names(pageTitle(Buffer.concat(head), mediaType)).name,
          targetFolderId: input.targetFolderId,
          importSource: { provider: null, url: publicSourceUrl(input.url) },
          chunking: {},
          ingest: true,
        });
      } catch (error) {
        await uploads.discard(file);
        throw error;
      }
    },
  };
}

async function* keepingHead(content: Readable, head: Buffer[]): AsyncGenerator<Buffer> {
  let headLength = 0;
  for await (const piece of content as AsyncIterable<Buffer>) {
    if (headLength < HEAD_BYTES) head.push(piece.subarray(0, HEAD_BYTES - headLength));
    headLength += piece.length;
    yield piece;
  }
}
