import type { Readable } from 'node:stream';
import { mediaTypeOf } from '#src/domain/format-guess.ts';
import type { Actor } from '#src/domain/visibility.ts';
import { appError } from '#src/errors.ts';
import type { BlobStore } from '#src/ports/blob-store.ts';
import type { Db } from '#src/ports/database.ts';
import type { DocumentRow } from './documents.model.ts';
import { createDocumentsRepository } from './documents.repository.ts';
import type { FileTokens } from './file-tokens.ts';

/** `open` reads the original, or an inclusive range of its bytes. */
export type DocumentFile = {
  document: DocumentRow;
  mediaType: string;
  open(range?: { start: number; end: number }): Promise<Readable>;
};

export type DocumentFilesService = ReturnType<typeof createDocumentFilesService>;

/** The stored originals of documents, for their readers and for whom these give an address. */
export function createDocumentFilesService(deps: {
  db: Db;
  blobs: Pick<BlobStore, 'read' | 'signedUrl'>;
  tokens: FileTokens;
  downloadUrlSeconds: number;
}) {
  const { blobs, tokens, downloadUrlSeconds } = deps;
  const documents = createDocumentsRepository(deps.db);

  async function fileOf(find: () => Promise<DocumentRow | undefined>): Promise<DocumentFile> {
    const document = await find();
    if (document === undefined) throw appError('document_not_found');
    const open = async (range?: { start: number; end: number }): Promise<Readable> => {
      try {
        return await blobs.read(document.blobKey, range);
      } catch (error) {
        const now = await find();
        if (now === undefined) throw appError('document_not_found');
        if (now.blobKey === document.blobKey) throw error;
        throw appError('service_unavailable', { detail: 'The file was replaced just now.', retryAfterSeconds: 1 });
      }
    };
    return { document, mediaType: mediaTypeOf(document.sourceFormat, document.fileName), open };
  }

  const get = (actor: Actor, documentId: string): Promise<DocumentFile> =>
    fileOf(() => documents.findRow(actor, documentId));

  return {
    get,

    /** What `signUrl` gave an address of. Throws `document_not_found` once that is deleted or replaced. */
    async getSigned(token: string): Promise<DocumentFile> {
      const signed = tokens.open(token);
      return fileOf(() => documents.findContent(signed));
    },

    /**
     * An address that gives the present original to anybody, for a while.
     * @param publicUrl where the API is, without a slash at its end
     */
    async signUrl(
      actor: Actor,
      documentId: string,
      publicUrl: string,
    ): Promise<{ url: string; expiresInSeconds: number }> {
      const { document, mediaType } = await get(actor, documentId);
      const { orgId, fileName, contentSha256, blobKey } = document;
      const ofStore = await blobs.signedUrl(blobKey, { fileName, mediaType, expiresInSeconds: downloadUrlSeconds });
      if (ofStore !== null) return { url: ofStore, expiresInSeconds: downloadUrlSeconds };
      const expiresAt = new Date(Date.now() + downloadUrlSeconds * 1_000);
      const token = tokens.sign({ orgId, documentId, contentSha256 }, expiresAt);
      return { url: `${publicUrl}/files/${token}`, expiresInSeconds: downloadUrlSeconds };
    },
  };
}
