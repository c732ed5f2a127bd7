import { Readable } from 'node:stream';
import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import type { DeleteDocumentInput } from '#src/contracts/deletion.ts';
import type { StoredUpload } from '#src/contracts/request-data.ts';
import { mayPerformAction } from '#src/domain/access/policy.ts';
import type { Actor, RequestActor } from '#src/domain/access/visibility.ts';
import { fileExtension, guessSourceFormat } from '#src/domain/documents/formats.ts';
import { documentNameFromFile } from '#src/domain/documents/names.ts';
import {
  applyChunkingOptions,
  type ChunkingOptions,
  isChunkOverlapBelowTarget,
  type RagConfig,
} from '#src/domain/documents/rag-config.ts';
import { appError, fieldError, type IfMatchVersions, requireExpectedVersion } from '#src/errors.ts';
import type { DeletionRequest, DeletionService } from '#src/modules/deletion/deletion.service.ts';
import type { FoldersService } from '#src/modules/folders/folders.service.ts';
import type { GenerationsService, IngestionPlan } from '#src/modules/ingestion/generations.service.ts';
import type { JobsService } from '#src/modules/jobs/jobs.service.ts';
import type { TierLimitsService } from '#src/modules/organization/tier-limits.service.ts';
import type { OriginalFilesService } from '#src/modules/originals/originals.service.ts';
import { createChunksRepository } from './chunks.repository.ts';
import { createDocumentLinksRepository } from './document-links.repository.ts';
import { createDocumentPublisher, type DocumentPublisherDeps } from './document-publisher.ts';
import type {
  ChunkInContext,
  ChunkRow,
  ConvertedDocument,
  DocumentRow,
  DocumentView,
  FullDocument,
} from './documents.model.ts';
import { createDocumentsRepository } from './documents.repository.ts';
import type { UploadsService } from './uploads.service.ts';

export type NewDocument = {
  /** Document id derived from the Idempotency-Key, so that a repeated request finds the document it created. */
  id?: string;
  file: StoredUpload;
  name: string | undefined;
  declaredFormat: string | null;
  targetFolderId: string | undefined;
  importSource?: { provider: string | null; url: string };
  chunking: ChunkingOptions;
  ingest: boolean;
  isBulk?: boolean;
  alongside?: (trx: Knex, documentId: string) => Promise<void>;
};

type PastedText = Pick<NewDocument, 'id'> & {
  name: string;
  content: string;
  sourceFormat: 'text' | 'markdown' | 'code';
  targetFolderId: string | undefined;
};

type DocumentChange = {
  name: string | undefined;
  targetFolderId: string | undefined;
  file: StoredUpload | undefined;
  chunking: ChunkingOptions;
  ingest: boolean;
  isBulk?: boolean;
  expected?: IfMatchVersions;
  /** Runs after the document's row is locked, in the same transaction. If it throws, the change is rolled back. */
  alongside?: (trx: Knex) => Promise<void>;
};

type DocumentList = { items: DocumentView[]; total: number };

type DocumentsDeps = DocumentPublisherDeps & {
  db: Knex;
  uploads: Pick<UploadsService, 'store' | 'settle' | 'discard'>;
  originals: Pick<OriginalFilesService, 'scheduleRelease' | 'releaseNow'>;
  folders: Pick<FoldersService, 'get' | 'requireTarget'>;
  limits: Pick<TierLimitsService, 'transaction' | 'lock'>;
  generations: Pick<GenerationsService, 'open' | 'openIfNeeded' | 'carryOut'>;
  deletion: Pick<DeletionService, 'enqueue'>;
  jobs: Pick<JobsService, 'dispatch'>;
  defaultConfig: () => Promise<RagConfig>;
};

export type DocumentsService = ReturnType<typeof createDocumentsService>;

const pastedFileTypes = {
  text: { extension: '.txt', mediaType: 'text/plain' },
  markdown: { extension: '.md', mediaType: 'text/markdown' },
  code: { extension: '.txt', mediaType: 'text/plain' },
} as const;

export function createDocumentsService(deps: DocumentsDeps) {
  const { db, uploads, originals, folders, limits, generations, deletion, jobs } = deps;
  const documents = createDocumentsRepository(db);
  const chunks = createChunksRepository(db);
  const publisher = createDocumentPublisher(deps);

  /**
   * Creates a document with its configuration, folder link and ingestion job, and returns its id. If it throws, the
   * caller must discard the uploaded file.
   */
  async function add(actor: RequestActor, input: NewDocument): Promise<string> {
    const ragConfig = applyChunkingOptions(await deps.defaultConfig(), input.chunking);
    requireOverlapBelowTarget(ragConfig);
    const { id, exists, plan } = await limits.transaction(actor.orgId, async (trx) => {
      const { id, exists } = await claimId(trx, actor, input.id);
      return { id, exists, plan: exists ? undefined : await insert(trx, actor, id, input, ragConfig) };
    });
    // Discards the second upload of a repeated request, because the document already has its file.
    if (exists) await uploads.discard(input.file);
    if (plan !== undefined) await generations.carryOut(plan);
    return id;
  }

  /** Returns the requested document id, or a new id if the document with the requested id was deleted. */
  async function claimId(trx: Knex, actor: RequestActor, id: string | undefined) {
    if (id === undefined) return { id: uuidv7(), exists: false };
    // The lock on the organization serializes requests with the same document id.
    await limits.lock(trx, actor.orgId);
    const deletedAt = await createDocumentsRepository(trx).findDeletedAt(id);
    if (deletedAt === undefined) return { id, exists: false };
    return deletedAt === null ? { id, exists: true } : { id: uuidv7(), exists: false };
  }

  async function insert(
    trx: Knex,
    actor: RequestActor,
    id: string,
    input: NewDocument,
    ragConfig: RagConfig,
  ): Promise<IngestionPlan | undefined> {
    const { file, declaredFormat, targetFolderId, importSource, ingest, isBulk = false } = input;
    const folder = await requireRoomIn(trx, actor, targetFolderId, file.sizeBytes);
    const document = {
      id,
      orgId: actor.orgId,
      name: input.name ?? documentNameFromFile(file.fileName),
      ...originalColumns(file),
      declaredFormat,
      sourceFormat: declaredFormat ?? guessSourceFormat(file),
      importSourceProvider: importSource?.provider ?? null,
      importSourceUrl: importSource?.url ?? null,
      ragConfig,
      acl: [...new Set([`user:${actor.userId}`, ...folder.acl])],
      createdBy: actor.userId,
      updatedBy: actor.userId,
    };
    await createDocumentsRepository(trx).insert(document);
    await uploads.settle(trx, file);
    const link = { orgId: actor.orgId, folderId: folder.id, documentId: id, createdBy: actor.userId };
    await createDocumentLinksRepository(trx).add(link);
    await input.alongside?.(trx, id);
    if (!ingest) return undefined;
    return generations.open(trx, actor, { ...document, generation: 0, activeGeneration: null }, { isBulk });
  }

  async function requireRoomIn(
    trx: Knex,
    actor: RequestActor,
    targetFolderId: string | undefined,
    sizeBytes: number,
  ): ReturnType<FoldersService['requireTarget']> {
    const places = await limits.lock(trx, actor.orgId);
    const usage = await createDocumentsRepository(trx).usage(actor.orgId);
    places.take('documents', usage.documents);
    places.take('storageBytes', usage.storageBytes, sizeBytes);
    return folders.requireTarget(trx, actor, targetFolderId);
  }

  async function find(actor: Actor, documentId: string): Promise<FullDocument | undefined> {
    const document = await documents.findView(actor, documentId);
    return document && { ...document, content: await documents.readBody(document) };
  }

  async function get(actor: Actor, documentId: string): Promise<FullDocument> {
    const document = await find(actor, documentId);
    if (document === undefined) throw appError('document_not_found');
    return document;
  }

  async function getView(actor: Actor, documentId: string): Promise<DocumentView> {
    const document = await documents.findView(actor, documentId);
    if (document === undefined) throw appError('document_not_found');
    return document;
  }

  /** Locks the document until `trx` ends. Throws `document_not_found`, and `forbidden` if it is read-only. */
  async function lockWritable(trx: Knex, actor: Actor, documentId: string): Promise<DocumentRow> {
    const document = await createDocumentsRepository(trx).lockRow(actor, documentId);
    if (document === undefined) throw appError('document_not_found');
    if (!mayPerformAction(actor, 'document:write', document)) {
      throw appError('forbidden', { detail: 'You have read-only access to this document.' });
    }
    return document;
  }

  async function applyChange(
    trx: Knex,
    actor: RequestActor,
    documentId: string,
    change: DocumentChange,
  ): Promise<{ before: DocumentRow; plan: IngestionPlan | undefined }> {
    const { file, targetFolderId, ingest, isBulk = false, expected = null } = change;
    // Every transaction locks the organization, the folder and the document in this order; another order could
    // deadlock.
    const places = file && (await limits.lock(trx, actor.orgId));
    const folder = targetFolderId === undefined ? undefined : await folders.requireTarget(trx, actor, targetFolderId);
    const before = await lockWritable(trx, actor, documentId);
    requireExpectedVersion(expected, before);
    await change.alongside?.(trx);
    const repository = createDocumentsRepository(trx);
    if (file && places) {
      const { storageBytes } = await repository.usage(actor.orgId);
      places.take('storageBytes', storageBytes, file.sizeBytes - before.sizeBytes);
    }
    const ragConfig = applyChunkingOptions(before.ragConfig, change.chunking);
    requireOverlapBelowTarget(ragConfig);

    const after: DocumentRow = {
      ...before,
      ...(change.name !== undefined && { name: change.name }),
      ...(file !== undefined && {
        ...originalColumns(file),
        declaredFormat: null,
        sourceFormat: guessSourceFormat(file),
      }),
      ...(folder !== undefined && { acl: await move(trx, actor, documentId, folder.id) }),
      ragConfig,
      updatedBy: actor.userId,
    };
    await repository.update(after);
    if (file !== undefined) {
      await uploads.settle(trx, file);
      await originals.scheduleRelease(trx, before);
    }
    if (!ingest) return { before, plan: undefined };
    // A document whose file was replaced is always ingested again, even with the same bytes, because another file name
    // may mean another format.
    const plan = await (file
      ? generations.open(trx, actor, after, { isBulk })
      : generations.openIfNeeded(trx, actor, after, { isBulk }));
    return { before, plan };
  }

  async function move(trx: Knex, { orgId, userId }: Actor, documentId: string, folderId: string): Promise<string[]> {
    const links = createDocumentLinksRepository(trx);
    await links.moveTo({ orgId, folderId, documentId, createdBy: userId });
    return links.renewKeys(documentId);
  }

  return {
    add,

    async upload(actor: RequestActor, input: Omit<NewDocument, 'declaredFormat'>): Promise<FullDocument> {
      return get(actor, await add(actor, { ...input, declaredFormat: null }));
    },

    async paste(actor: RequestActor, text: PastedText): Promise<FullDocument> {
      const { sourceFormat, content, ...named } = text;
      const { extension, mediaType } = pastedFileTypes[sourceFormat];
      const bytes = Buffer.from(content);
      const file = await uploads.store(actor, {
        fileName: fileExtension(text.name) === '' ? text.name + extension : text.name,
        mediaType,
        content: Readable.from([bytes]),
        announcedBytes: bytes.length,
      });
      const document = { ...named, file, declaredFormat: sourceFormat, chunking: {}, ingest: true };
      const id = await add(actor, document).catch(async (error: unknown) => {
        await uploads.discard(file);
        throw error;
      });
      return get(actor, id);
    },

    /**
     * Checks limits and target folder before a file is fetched. Throws what `add` would throw for a file of one byte.
     */
    async requireRoom(actor: RequestActor, targetFolderId: string | undefined): Promise<void> {
      await limits.transaction(actor.orgId, (trx) => requireRoomIn(trx, actor, targetFolderId, 1));
    },

    /** Lists documents, most recently changed first; `total` counts all pages. Throws `folder_not_found`. */
    async list(
      actor: Actor,
      page: { folderId: string | undefined; limit: number; offset: number },
    ): Promise<DocumentList> {
      const { folderId } = page;
      if (folderId !== undefined) await folders.get(actor, folderId);
      const [items, total] = await Promise.all([
        documents.listReadable(actor, page),
        folderId === undefined ? documents.countReadable(actor) : documents.countInFolder(actor, folderId),
      ]);
      return { items, total };
    },

    async listRecent(actor: Actor, { limit, mine }: { limit: number; mine: boolean }): Promise<DocumentList> {
      const createdBy = mine ? actor.userId : undefined;
      const [items, total] = await Promise.all([
        documents.listReadable(actor, { createdBy, limit, offset: 0 }),
        documents.countReadable(actor, createdBy),
      ]);
      return { items, total };
    },

    find,
    get,
    getView,

    /** Whether a document with this id exists, or did until its deletion began. No access check. */
    async isKnown(id: string): Promise<boolean> {
      return (await documents.findDeletedAt(id)) !== undefined;
    },

    /** Reads the text that the next ingestion would chunk. Throws `document_not_converted` before a conversion. */
    async getConverted(actor: Actor, documentId: string): Promise<ConvertedDocument> {
      const document = await documents.findRow(actor, documentId);
      if (document === undefined) throw appError('document_not_found');
      const conversion = await documents.findConversion(document);
      if (conversion === undefined) {
        throw appError('document_not_converted', {
          detail:
            'The original is not converted yet. Wait for its ingestion, or start one with POST /rag/ingest/{document_id}.',
        });
      }
      const { orgId, name, ragConfig } = document;
      return { orgId, name, ragConfig, ...conversion };
    },

    async listChunks(actor: Actor, documentId: string): Promise<ChunkRow[]> {
      await getView(actor, documentId);
      return chunks.listActive(actor, documentId);
    },

    async getChunk(actor: Actor, chunkId: string): Promise<ChunkInContext> {
      const chunk = await chunks.findActive(actor, chunkId);
      if (chunk === undefined) throw appError('chunk_not_found');
      return chunk;
    },

    /**
     * Changes a document. Throws `document_not_found`, `folder_not_found`, `storage_quota_exceeded`,
     * `precondition_failed`, and `forbidden` if the document or the folder is read-only for the caller.
     */
    async change(actor: RequestActor, documentId: string, change: DocumentChange): Promise<FullDocument> {
      const work = (trx: Knex) => applyChange(trx, actor, documentId, change);
      const { before, plan } = await (change.file ? limits.transaction(actor.orgId, work) : db.transaction(work));
      await publisher.publishNow(documentId);
      if (plan !== undefined) await generations.carryOut(plan);
      if (change.file !== undefined) await originals.releaseNow(before);
      return get(actor, documentId);
    },

    lockWritable,

    /** Sets the retrieval settings of a document; the caller calls `publishNow` after the commit. */
    async setConfig(trx: Knex, actor: Actor, document: DocumentRow, ragConfig: RagConfig): Promise<void> {
      await createDocumentsRepository(trx).update({ ...document, ragConfig, updatedBy: actor.userId });
    },

    /** Sets the embedding model of the document's next generation; the active generation keeps its model. */
    async setEmbeddingModel(trx: Knex, documentId: string, model: string): Promise<void> {
      await createDocumentsRepository(trx).setEmbeddingModel(documentId, model);
    },

    publishNow: publisher.publishNow,
    publishOutdated: publisher.publishOutdated,

    /**
     * Deletes a document: hides it at once, and starts a workflow that removes its data from the stores. Throws
     * `document_not_found`, and `forbidden` if it is read-only for the caller.
     * @param alongside writes further rows in the transaction of the deletion
     */
    async remove(
      actor: RequestActor,
      documentId: string,
      alongside: (trx: Knex) => Promise<void> = () => Promise.resolve(),
    ): Promise<void> {
      const { orgId, userId, requestId } = actor;
      const jobId = await db.transaction(async (trx) => {
        const { acl } = await lockWritable(trx, actor, documentId);
        await createDocumentsRepository(trx).markDeleted([documentId], userId);
        await alongside(trx);
        // The deletion job gets the document's access keys, so that readers of the document may read the job.
        return deletion.enqueue(trx, { orgId, documentId }, { createdBy: userId, acl, requestId });
      });
      await jobs.dispatch(jobId);
    },

    async discard(input: DeleteDocumentInput, request: DeletionRequest): Promise<void> {
      const jobId = await db.transaction(async (trx) => {
        const marked = await createDocumentsRepository(trx).markDeleted([input.documentId], request.createdBy);
        return marked === 0 ? null : deletion.enqueue(trx, input, request);
      });
      if (jobId !== null) await jobs.dispatch(jobId);
    },
  };
}

function originalColumns({ fileName, mediaType, sizeBytes, sha256, blobKey }: StoredUpload) {
  return { fileName, mediaType, sizeBytes, contentSha256: sha256, blobKey };
}

function requireOverlapBelowTarget({ chunking }: RagConfig): void {
  if (!isChunkOverlapBelowTarget(chunking)) throw fieldError('overlap_tokens', 'must be less than target_tokens');
}
