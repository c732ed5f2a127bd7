import type { Readable } from 'node:stream';
import type { Knex } from 'knex';
import type { Actor } from '#src/domain/access/visibility.ts';
import { mediaTypeOf } from '#src/domain/documents/format-guess.ts';
import { appError } from '#src/errors.ts';
import type { PreviewsService } from '#src/modules/previews/previews.service.ts';
import type { BlobStore } from '#src/ports/blob-store.ts';
import type { DocumentRow } from './documents.model.ts';
import { createDocumentsRepository } from './documents.repository.ts';
import type { FileTokens } from './file-tokens.ts';

/** `sha256` is lower-case hex. */
type StoredFile = { blobKey: string; fileName: string; mediaType: string; sizeBytes: number; sha256: string };

/** `open` reads it, or an inclusive range of its bytes. */
export type DocumentFile = StoredFile & {
  open(range?: { start: number; end: number }): Promise<Readable>;
};

export type DocumentFilesService = ReturnType<typeof createDocumentFilesService>;

/** The stored originals of documents and their previews, for their readers and for whom these give an address. */
export function createDocumentFilesService(deps: {
  db: Knex;
  blobs: Pick<BlobStore, 'read' | 'signedUrl'>;
  previews: Pick<PreviewsService, 'get'>;
  tokens: FileTokens;
  downloadUrlSeconds: number;
}) {
  const { blobs, previews, tokens, downloadUrlSeconds } = deps;
  const documents = createDocumentsRepository(deps.db);

  /** @param find finds the document, which another file may take the place of at any time */
  async function fileOf(
    find: () => Promise<DocumentRow | undefined>,
    stored: (document: DocumentRow) => StoredFile | Promise<StoredFile>,
  ): Promise<DocumentFile> {
    const findFile = async () => {
      const document = await find();
      if (document === undefined) throw appError('document_not_found');
      requireClean(document);
      return stored(document);
    };
    const file = await findFile();
    const open = async (range?: { start: number; end: number }): Promise<Readable> => {
      try {
        return await blobs.read(file.blobKey, range);
      } catch (error) {
        const now = await findFile();
        if (now.blobKey === file.blobKey) throw error;
        throw appError('service_unavailable', { detail: 'The file was replaced just now.', retryAfterSeconds: 1 });
      }
    };
    return { ...file, open };
  }

  async function previewOf(document: DocumentRow): Promise<StoredFile> {
    const { blobKey, sizeBytes, sha256 } = await previews.get(document);
    const fileName = `${document.fileName.replace(/\.[^./\\]*$/, '')}.pdf`;
    return { blobKey, fileName, mediaType: 'application/pdf', sizeBytes, sha256 };
  }

  /** Throws `document_not_found`, and `malware_found` for what the scanner has found something in. */
  const get = (actor: Actor, documentId: string): Promise<DocumentFile> =>
    fileOf(() => documents.findRow(actor, documentId), originalOf);

  /** The same of its preview. Throws `preview_not_found`, which tells why there is none. */
  const getPreview = (actor: Actor, documentId: string): Promise<DocumentFile> =>
    fileOf(() => documents.findRow(actor, documentId), previewOf);

  return {
    get,
    getPreview,

    /** What `signUrl` gave an address of. Throws `document_not_found` once that is deleted or replaced. */
    async getSigned(token: string): Promise<DocumentFile> {
      const signed = tokens.open(token);
      const isOriginal = (await documents.findContent(signed)) !== undefined;
      return isOriginal
        ? fileOf(() => documents.findContent(signed), originalOf)
        : fileOf(() => documents.findPreviewed(signed), previewOf);
    },

    /**
     * An address that gives the present original, or its preview, to anybody, for a while.
     * @param publicUrl where the API is, without a slash at its end
     */
    async signUrl(
      actor: Actor,
      documentId: string,
      { publicUrl, isPreview }: { publicUrl: string; isPreview: boolean },
    ): Promise<{ url: string; expiresInSeconds: number }> {
      const { blobKey, fileName, mediaType, sha256 } = await (isPreview ? getPreview : get)(actor, documentId);
      const ofStore = await blobs.signedUrl(blobKey, { fileName, mediaType, expiresInSeconds: downloadUrlSeconds });
      if (ofStore !== null) return { url: ofStore, expiresInSeconds: downloadUrlSeconds };
      const expiresAt = new Date(Date.now() + downloadUrlSeconds * 1_000);
      const token = tokens.sign({ orgId: actor.orgId, documentId, contentSha256: sha256 }, expiresAt);
      return { url: `${publicUrl}/files/${token}`, expiresInSeconds: downloadUrlSeconds };
    },
  };
}

function originalOf({ blobKey, fileName, sourceFormat, sizeBytes, contentSha256 }: DocumentRow): StoredFile {
  return { blobKey, fileName, mediaType: mediaTypeOf(sourceFormat, fileName), sizeBytes, sha256: contentSha256 };
}

function requireClean({ malware, contentSha256 }: DocumentRow): void {
  if (malware === null || malware.sha256 !== contentSha256) return;
  throw appError('malware_found', { detail: `The malware scanner found ${malware.signature}: the file is locked.` });
}
