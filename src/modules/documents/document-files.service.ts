import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Readable } from 'node:stream';
import type { Knex } from 'knex';
import { parse, stringify } from 'uuid';
import type { Actor } from '#src/domain/access/visibility.ts';
import { mediaTypeOfFormat } from '#src/domain/documents/formats.ts';
import { appError } from '#src/errors.ts';
import type { PreviewsService } from '#src/modules/previews/previews.service.ts';
import type { BlobStore } from '#src/ports/blob-store.ts';
import type { DocumentRow } from './documents.model.ts';
import { createDocumentsRepository } from './documents.repository.ts';

const UUID_BYTES = 16;
const HASH_BYTES = 32;
const PAYLOAD_BYTES = 2 * UUID_BYTES + HASH_BYTES + 6;

type SignedFile = { orgId: string; documentId: string; contentSha256: string };

type FileTokens = {
  sign(file: SignedFile, expiresAt: Date): string;
  /** Verifies the token of a signed URL. Throws `file_url_invalid` and `file_url_expired`. */
  open(token: string): SignedFile;
};

type StoredFile = { blobKey: string; fileName: string; mediaType: string; sizeBytes: number; sha256: string };

export type DocumentFile = StoredFile & {
  open(range?: { start: number; end: number }): Promise<Readable>;
};

export type DocumentFilesService = ReturnType<typeof createDocumentFilesService>;

export function createDocumentFilesService(deps: {
  db: Knex;
  blobs: Pick<BlobStore, 'read' | 'signedUrl'>;
  previews: Pick<PreviewsService, 'get'>;
  tokens: FileTokens;
  downloadUrlSeconds: number;
}) {
  const { blobs, previews, tokens, downloadUrlSeconds } = deps;
  const documents = createDocumentsRepository(deps.db);

  /**
   * Returns the file of a document, with a function that opens it.
   * @param find finds the document; called again when opening fails, because the original may have been replaced
   */
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
        throw appError('service_unavailable', {
          detail: 'The file was replaced during the download. Try again.',
          retryAfterSeconds: 1,
        });
      }
    };
    return { ...file, open };
  }

  async function previewOf(document: DocumentRow): Promise<StoredFile> {
    const { blobKey, sizeBytes, sha256 } = await previews.get(document);
    const fileName = `${document.fileName.replace(/\.[^./\\]*$/, '')}.pdf`;
    return { blobKey, fileName, mediaType: 'application/pdf', sizeBytes, sha256 };
  }

  const get = (actor: Actor, documentId: string): Promise<DocumentFile> =>
    fileOf(() => documents.findRow(actor, documentId), originalOf);

  /** Opens the PDF preview. Throws `document_not_found`, `malware_found`, `preview_not_found` with the reason. */
  const getPreview = (actor: Actor, documentId: string): Promise<DocumentFile> =>
    fileOf(() => documents.findRow(actor, documentId), previewOf);

  return {
    get,
    getPreview,

    /** Opens the file of a signed URL. Throws `document_not_found` once that file is deleted or replaced. */
    async getSigned(token: string): Promise<DocumentFile> {
      const signed = tokens.open(token);
      const isOriginal = (await documents.findByOriginal(signed)) !== undefined;
      return isOriginal
        ? fileOf(() => documents.findByOriginal(signed), originalOf)
        : fileOf(() => documents.findByPreview(signed), previewOf);
    },

    /**
     * Signs a URL that downloads the current original, or its preview, without authentication until it expires.
     * @param publicUrl base URL of the API, without a trailing slash
     */
    async signUrl(
      actor: Actor,
      documentId: string,
      { publicUrl, isPreview }: { publicUrl: string; isPreview: boolean },
    ): Promise<{ url: string; expiresInSeconds: number }> {
      const { blobKey, fileName, mediaType, sha256 } = await (isPreview ? getPreview : get)(actor, documentId);
      const storeUrl = await blobs.signedUrl(blobKey, { fileName, mediaType, expiresInSeconds: downloadUrlSeconds });
      if (storeUrl !== null) return { url: storeUrl, expiresInSeconds: downloadUrlSeconds };
      const expiresAt = new Date(Date.now() + downloadUrlSeconds * 1_000);
      const token = tokens.sign({ orgId: actor.orgId, documentId, contentSha256: sha256 }, expiresAt);
      return { url: `${publicUrl}/files/${token}`, expiresInSeconds: downloadUrlSeconds };
    },
  };
}

function originalOf({ blobKey, fileName, sourceFormat, sizeBytes, contentSha256 }: DocumentRow): StoredFile {
  return { blobKey, fileName, mediaType: mediaTypeOfFormat(sourceFormat, fileName), sizeBytes, sha256: contentSha256 };
}

function requireClean({ malware, contentSha256 }: DocumentRow): void {
  if (malware === null || malware.sha256 !== contentSha256) return;
  throw appError('malware_found', {
    detail: `The malware scanner found ${malware.signature}; the file cannot be downloaded.`,
  });
}

/** The token of a signed URL is base64url of `<organization id><document id><hash><expiry in ms><HMAC-SHA256>`. */
export function createDownloadUrlTokens(key: Buffer): FileTokens {
  const signatureOf = (payload: Buffer) => createHmac('sha256', key).update(payload).digest();

  return {
    sign({ orgId, documentId, contentSha256 }, expiresAt) {
      const expiry = Buffer.alloc(6);
      expiry.writeUIntBE(expiresAt.getTime(), 0, 6);
      const payload = Buffer.concat([parse(orgId), parse(documentId), Buffer.from(contentSha256, 'hex'), expiry]);
      return Buffer.concat([payload, signatureOf(payload)]).toString('base64url');
    },

    open(token) {
      const bytes = Buffer.from(token, 'base64url');
      const payload = bytes.subarray(0, PAYLOAD_BYTES);
      const signature = bytes.subarray(PAYLOAD_BYTES);
      const expected = signatureOf(payload);
      if (signature.length !== expected.length || !timingSafeEqual(signature, expected)) {
        throw appError('file_url_invalid');
      }
      if (payload.readUIntBE(PAYLOAD_BYTES - 6, 6) <= Date.now()) throw appError('file_url_expired');
      return {
        orgId: stringify(payload.subarray(0, UUID_BYTES)),
        documentId: stringify(payload.subarray(UUID_BYTES, 2 * UUID_BYTES)),
        contentSha256: payload.subarray(2 * UUID_BYTES, 2 * UUID_BYTES + HASH_BYTES).toString('hex'),
      };
    },
  };
}
