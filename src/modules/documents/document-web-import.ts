import { Readable } from 'node:stream';
import type { RequestActor } from '#src/domain/access/visibility.ts';
import { sourceAddress, webDocumentNames } from '#src/domain/documents/web-document.ts';
import { appError } from '#src/errors.ts';
import type { TierLimitsService } from '#src/modules/organization/tier-limits.service.ts';
import type { WebFetcher } from '#src/ports/web.ts';
import type { FullDocument } from './documents.model.ts';
import type { DocumentsService } from './documents.service.ts';
import type { UploadsService } from './uploads.service.ts';

/** What is read best comes first; servers that have one form only ignore it. */
const accept = 'text/html,application/xhtml+xml,text/markdown;q=0.9,application/pdf;q=0.9,text/plain;q=0.8,*/*;q=0.5';
/** A large file may come over a slow line; it takes the place of an upload meanwhile. */
const LONGEST_MS = 5 * 60_000;
/** The title of a page stands in its head. */
const headBytes = 64 * 1024;

export type WebImportInput = {
  /** A request that is repeated has it again. */
  id: string;
  url: string;
  /** The server's, the page's or the address's when undefined. */
  name: string | undefined;
  /** The caller's personal root when undefined. */
  targetFolderId: string | undefined;
};

/** Makes documents of what is on the web. */
export function createDocumentWebImport(deps: {
  web: WebFetcher;
  documents: Pick<DocumentsService, 'find' | 'requireRoom' | 'upload'>;
  uploads: UploadsService;
  limits: Pick<TierLimitsService, 'of'>;
  /** The title of a page, by its first bytes. */
  pageTitle: (head: Buffer, mediaType: string) => string | null;
}) {
  const { web, documents, uploads, limits, pageTitle } = deps;

  return {
    /**
     * Who may not have the document makes nobody fetch it. Throws what `upload` does, `url_not_allowed`,
     * `url_unreachable`, `payload_too_large`, and `empty_document` where nothing is at the address.
     */
    async importFromUrl(actor: RequestActor, input: WebImportInput): Promise<FullDocument> {
      // The page may be another one by now, or gone.
      const made = await documents.find(actor, input.id);
      if (made !== undefined) return made;
      await documents.requireRoom(actor, input.targetFolderId);
      const { fileSizeBytes } = await limits.of(actor.orgId);
      const source = await web.fetch(input.url, { accept, limitBytes: fileSizeBytes, timeoutMs: LONGEST_MS });
      const { finalUrl, mediaType, fileName, content } = source;
      const head: Buffer[] = [];
      const names = (title: string | null) => webDocumentNames({ finalUrl, mediaType, fileName, title });
      const file = await uploads
        .store(actor, {
          fileName: names(null).fileName,
          mediaType,
          content: Readable.from(keepingHead(content, head)),
        })
        .finally(() => content.destroy());
      try {
        if (file.sizeBytes === 0) throw appError('empty_document', { detail: 'Nothing is at this address.' });
        return await documents.upload(actor, {
          file,
          id: input.id,
          name: input.name ?? names(pageTitle(Buffer.concat(head), mediaType)).name,
          targetFolderId: input.targetFolderId,
          importSource: { provider: null, url: sourceAddress(input.url) },
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

/** Passes everything on. */
async function* keepingHead(content: Readable, head: Buffer[]): AsyncGenerator<Buffer> {
  let kept = 0;
  for await (const piece of content as AsyncIterable<Buffer>) {
    if (kept < headBytes) head.push(piece.subarray(0, headBytes - kept));
    kept += piece.length;
    yield piece;
  }
}

export type DocumentWebImport = ReturnType<typeof createDocumentWebImport>;
