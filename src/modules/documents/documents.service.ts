import { Readable } from 'node:stream';
import { v7 as uuidv7 } from 'uuid';
import type { StoredUpload } from '#src/contracts/uploads.ts';
import { ingestWorkflowId } from '#src/contracts/workflow-ids.ts';
import { fileExtension } from '#src/domain/document-format.ts';
import { guessFormat } from '#src/domain/format-guess.ts';
import { isOneLine, isStorable } from '#src/domain/plain-text.ts';
import { type ChunkingWishes, isOverlapBelowTarget, type RagConfig, withChunking } from '#src/domain/rag-config.ts';
import type { Actor } from '#src/domain/visibility.ts';
import { AppError, appError, fieldError } from '#src/errors.ts';
import type { FoldersService } from '#src/modules/folders/folders.service.ts';
import type { JobsService } from '#src/modules/jobs/jobs.service.ts';
import type { TierLimitsService } from '#src/modules/organization/tier-limits.service.ts';
import type { BlobStore } from '#src/ports/blob-store.ts';
import type { Db } from '#src/ports/database.ts';
import { createChunksRepository } from './chunks.repository.ts';
import type { ChunkInContext, ChunkRow, DocumentRow, DocumentView, FullDocument } from './documents.model.ts';
import { createDocumentsRepository } from './documents.repository.ts';

/** The caller, and the request id that a started workflow carries on. */
export type RequestActor = Actor & { requestId: string };

export type UploadInput = {
  file: StoredUpload;
  name?: string | undefined;
  targetFolderId?: string | undefined;
  chunking: ChunkingWishes;
  ingest: boolean;
};

export type PasteInput = {
  name: string;
  content: string;
  sourceFormat: 'text' | 'markdown' | 'code';
  targetFolderId?: string | undefined;
};

type NewDocument = UploadInput & { declaredFormat: PasteInput['sourceFormat'] | null };

const pastedAs = {
  text: { extension: '.txt', mediaType: 'text/plain' },
  markdown: { extension: '.md', mediaType: 'text/markdown' },
  code: { extension: '.txt', mediaType: 'text/plain' },
} as const;

/** The engine takes 400 bytes for the whole line. */
const summaryNameLength = 80;

export function createDocumentsService(deps: {
  db: Db;
  blobs: BlobStore;
  jobs: Pick<JobsService, 'enqueue' | 'dispatch'>;
  folders: Pick<FoldersService, 'get' | 'requireTarget'>;
  limits: TierLimitsService;
  defaultConfig: RagConfig;
}) {
  const documents = createDocumentsRepository(deps.db);
  const chunks = createChunksRepository(deps.db);

  const requireView = async (actor: Actor, documentId: string): Promise<DocumentView> => {
    const document = await documents.findView(actor, documentId);
    if (document === undefined) throw appError('document_not_found');
    return document;
  };

  const readFull = async (actor: Actor, documentId: string): Promise<FullDocument> => {
    const document = await requireView(actor, documentId);
    return { ...document, content: await documents.readBody(document) };
  };

  /** Limits, folder, document, link and job become visible together or not at all. */
  const create = async (actor: RequestActor, input: NewDocument): Promise<FullDocument> => {
    const { file } = input;
    const ragConfig = withChunking(deps.defaultConfig, input.chunking);
    if (!isOverlapBelowTarget(ragConfig.chunking)) {
      throw fieldError('overlap_tokens', 'must be less than target_tokens');
    }
    const documentId = uuidv7();
    const generation = input.ingest ? 1 : 0;
    const jobId = ingestWorkflowId(documentId, 1);

    await deps.db.transaction(async (trx) => {
      const repository = createDocumentsRepository(trx);
      const limits = await deps.limits.lock(trx, actor.orgId);
      const usage = await repository.usage(actor.orgId);
      if (usage.documents >= limits.documents) throw appError('document_limit_reached');
      if (usage.storageBytes + file.sizeBytes > limits.storageBytes) throw appError('storage_quota_exceeded');

      const folder = await deps.folders.requireTarget(trx, actor, input.targetFolderId);
      const document: Parameters<typeof repository.insert>[0] = {
        id: documentId,
        orgId: actor.orgId,
        name: input.name ?? nameFromFile(file.fileName),
        fileName: file.fileName,
        mediaType: file.mediaType,
        declaredFormat: input.declaredFormat,
        sourceFormat: input.declaredFormat ?? guessFormat(file),
        sizeBytes: file.sizeBytes,
        contentSha256: file.sha256,
        blobKey: file.blobKey,
        importSourceProvider: null,
        importSourceUrl: null,
        generation,
        chunkingStale: false,
        embeddingStale: false,
        ragConfig,
        acl: [...new Set([`user:${actor.userId}`, ...folder.acl])],
        createdBy: actor.userId,
        updatedBy: actor.userId,
      };
      await repository.insert(document);
      await repository.link({ orgId: actor.orgId, folderId: folder.id, documentId, createdBy: actor.userId });
      if (!input.ingest) return;
      await repository.openGeneration({ orgId: actor.orgId, documentId, generation, jobId });
      await deps.jobs.enqueue(trx, {
        id: jobId,
        kind: 'ingest',
        orgId: actor.orgId,
        createdBy: actor.userId,
        acl: document.acl,
        documentId,
        start: {
          workflow: 'ingestDocument',
          input: { orgId: actor.orgId, documentId, generation },
          summary: `Ingest ${document.name.slice(0, summaryNameLength).toWellFormed()}`,
        },
        requestId: actor.requestId,
      });
    });
    if (input.ingest) await deps.jobs.dispatch(jobId);
    return readFull(actor, documentId);
  };

  /** Creates the document of a stored file, or gives the file back when a rule refuses it. */
  const createOrDiscard = async (actor: RequestActor, input: NewDocument): Promise<FullDocument> => {
    try {
      return await create(actor, input);
    } catch (error) {
      // Only a refusal of ours proves that nothing was committed. After a lost connection the row may be there.
      if (error instanceof AppError) await deps.blobs.delete(input.file.blobKey);
      throw error;
    }
  };

  /** Streams a file into the store, up to the size that the organization's tier allows. */
  const storeFile = async (
    actor: Actor,
    file: { fileName: string; mediaType: string; content: Readable },
  ): Promise<StoredUpload> => {
    const { fileSizeBytes } = await deps.limits.of(actor.orgId);
    const blobKey = `${actor.orgId}/${uuidv7()}`;
    const stored = await deps.blobs.put({ key: blobKey, content: file.content, limitBytes: fileSizeBytes });
    return { blobKey, fileName: file.fileName, mediaType: file.mediaType, ...stored };
  };

  return {
    storeFile,

    async discardFile(file: StoredUpload): Promise<void> {
      await deps.blobs.delete(file.blobKey);
    },

    async upload(actor: RequestActor, input: UploadInput): Promise<FullDocument> {
      return createOrDiscard(actor, { ...input, declaredFormat: null });
    },

    async paste(actor: RequestActor, input: PasteInput): Promise<FullDocument> {
      const { extension, mediaType } = pastedAs[input.sourceFormat];
      const file = await storeFile(actor, {
        fileName: fileExtension(input.name) === '' ? input.name + extension : input.name,
        mediaType,
        content: Readable.from([Buffer.from(input.content)]),
      });
      const { name, targetFolderId, sourceFormat: declaredFormat } = input;
      return createOrDiscard(actor, { file, name, targetFolderId, chunking: {}, ingest: true, declaredFormat });
    },

    async list(actor: Actor, page: { folderId?: string | undefined; limit: number; offset: number }) {
      if (page.folderId !== undefined) await deps.folders.get(actor, page.folderId);
      return documents.listReadable(actor, page);
    },

    get: readFull,
    /** Without the body: for the state of its ingestion. */
    getView: requireView,

    async listChunks(actor: Actor, documentId: string): Promise<ChunkRow[]> {
      return chunks.listActive(await requireView(actor, documentId));
    },

    async getChunk(actor: Actor, chunkId: string): Promise<ChunkInContext> {
      const chunk = await chunks.findActive(actor, chunkId);
      if (chunk === undefined) throw appError('chunk_not_found');
      return chunk;
    },

    /** The stored original. `open` reads it, or an inclusive range of its bytes. */
    async getFile(
      actor: Actor,
      documentId: string,
    ): Promise<{ document: DocumentRow; open(range?: { start: number; end: number }): Promise<Readable> }> {
      const document = await documents.findRow(actor, documentId);
      if (document === undefined) throw appError('document_not_found');
      return { document, open: (range) => deps.blobs.read(document.blobKey, range) };
    },
  };
}

export type DocumentsService = ReturnType<typeof createDocumentsService>;

/** File names come from anywhere: a name of ours is one line of at most 255 characters. */
function nameFromFile(fileName: string): string {
  const name = [...fileName.toWellFormed()].filter((character) => isOneLine(character) && isStorable(character));
  return name.join('').trim().slice(0, 255).toWellFormed() || 'Untitled';
}
