import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import type { StoredUpload } from '#src/contracts/uploads.ts';
import type { RequestActor } from '#src/domain/access/visibility.ts';
import { guessFormat } from '#src/domain/documents/format-guess.ts';
import { nameFromFile } from '#src/domain/documents/names.ts';
import { type ChunkingOptions, type RagConfig, withChunking } from '#src/domain/documents/rag-config.ts';
import type { FoldersService } from '#src/modules/folders/folders.service.ts';
import type { GenerationsService, IngestionPlan } from '#src/modules/ingestion/generations.service.ts';
import type { TierLimitsService } from '#src/modules/organization/tier-limits.service.ts';
import { requireOverlapBelowTarget } from './chunking-fields.ts';
import { createDocumentLinksRepository } from './document-links.repository.ts';
import { createDocumentTotalsRepository } from './document-totals.repository.ts';
import { createDocumentsRepository } from './documents.repository.ts';
import type { UploadsService } from './uploads.service.ts';

export type NewDocument = {
  /** A request that is repeated after a lost answer has it again, and finds what it has made. Left out where none is. */
  id?: string;
  file: StoredUpload;
  /** The file's when undefined. */
  name: string | undefined;
  /** What its author says it is; null for what is detected. */
  declaredFormat: string | null;
  /** The caller's personal root when undefined. */
  targetFolderId: string | undefined;
  /** Where it was fetched: on the web, where it has no provider, or from one. */
  importSource?: { provider: string | null; url: string };
  chunking: ChunkingOptions;
  ingest: boolean;
  /** Its ingestion comes after all that somebody waits for. */
  isBulk?: boolean;
  /** What becomes visible together with it. */
  alongside?: (trx: Knex, documentId: string) => Promise<void>;
};

export type IntakeDeps = {
  generations: Pick<GenerationsService, 'open' | 'carryOut'>;
  folders: Pick<FoldersService, 'requireTarget'>;
  limits: Pick<TierLimitsService, 'transaction' | 'lock'>;
  uploads: Pick<UploadsService, 'settle' | 'discard'>;
  /** What a document starts with on this deployment, now. */
  defaultConfig: () => Promise<RagConfig>;
};

/** Makes documents of stored files. */
export function createDocumentIntake(deps: IntakeDeps) {
  const configOf = async ({ chunking }: NewDocument): Promise<RagConfig> => {
    const ragConfig = withChunking(await deps.defaultConfig(), chunking);
    requireOverlapBelowTarget(ragConfig.chunking);
    return ragConfig;
  };

  /** The folder that a document goes into; it and the room are there until the end of `trx`. */
  const takePlace = async (
    trx: Knex,
    actor: RequestActor,
    { targetFolderId, sizeBytes }: { targetFolderId: string | undefined; sizeBytes: number },
  ) => {
    const places = await deps.limits.lock(trx, actor.orgId);
    const usage = await createDocumentTotalsRepository(trx).usage(actor.orgId);
    places.take('documents', usage.documents);
    places.take('storageBytes', usage.storageBytes, sizeBytes);
    return deps.folders.requireTarget(trx, actor, targetFolderId);
  };

  /** The id that the document will have, and whether it has been made before: then there is nothing to do. */
  const claimId = async (trx: Knex, actor: RequestActor, { id }: NewDocument) => {
    if (id === undefined) return { id: uuidv7(), isMade: false };
    // Two that are equal come here one after the other.
    await deps.limits.lock(trx, actor.orgId);
    const before = await createDocumentsRepository(trx).findDeletedAt(id);
    if (before === undefined) return { id, isMade: false };
    return before === null ? { id, isMade: true } : { id: uuidv7(), isMade: false };
  };

  const insert = async (
    trx: Knex,
    actor: RequestActor,
    id: string,
    input: NewDocument,
    ragConfig: RagConfig,
  ): Promise<IngestionPlan | undefined> => {
    const { file, targetFolderId } = input;
    const documents = createDocumentsRepository(trx);
    const folder = await takePlace(trx, actor, { targetFolderId, sizeBytes: file.sizeBytes });
    const document = {
      id,
      orgId: actor.orgId,
      name: input.name ?? nameFromFile(file.fileName),
      fileName: file.fileName,
      mediaType: file.mediaType,
      declaredFormat: input.declaredFormat,
      sourceFormat: input.declaredFormat ?? guessFormat(file),
      sizeBytes: file.sizeBytes,
      contentSha256: file.sha256,
      blobKey: file.blobKey,
      importSourceProvider: input.importSource?.provider ?? null,
      importSourceUrl: input.importSource?.url ?? null,
      ragConfig,
      acl: [...new Set([`user:${actor.userId}`, ...folder.acl])],
      createdBy: actor.userId,
      updatedBy: actor.userId,
    };
    await documents.insert(document);
    await deps.uploads.settle(trx, file);
    const links = createDocumentLinksRepository(trx);
    await links.add({ orgId: actor.orgId, folderId: folder.id, documentId: id, createdBy: actor.userId });
    await input.alongside?.(trx, id);
    if (!input.ingest) return undefined;
    const { isBulk = false } = input;
    return deps.generations.open(trx, actor, { ...document, generation: 0, activeGeneration: null }, { isBulk });
  };

  return {
    /**
     * Document, configuration, folder link and job become visible together or not at all. A refused file is its
     * caller's to discard. Returns the new document's id.
     */
    async add(actor: RequestActor, input: NewDocument): Promise<string> {
      const ragConfig = await configOf(input);
      const { id, isMade, plan } = await deps.limits.transaction(actor.orgId, async (trx) => {
        const { id, isMade } = await claimId(trx, actor, input);
        return { id, isMade, plan: isMade ? undefined : await insert(trx, actor, id, input, ragConfig) };
      });
      // The document may have another original by now, and nobody this one.
      if (isMade) await deps.uploads.discard(input.file);
      if (plan !== undefined) await deps.generations.carryOut(plan);
      return id;
    },

    /** Refuses as `add` would refuse the smallest file: before somebody fetches one. */
    async requireRoom(actor: RequestActor, targetFolderId: string | undefined): Promise<void> {
      await deps.limits.transaction(actor.orgId, (trx) => takePlace(trx, actor, { targetFolderId, sizeBytes: 1 }));
    },
  };
}
