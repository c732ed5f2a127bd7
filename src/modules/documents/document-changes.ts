import type { Knex } from 'knex';
import type { StoredUpload } from '#src/contracts/uploads.ts';
import type { ExpectedVersions } from '#src/domain/access/idempotency.ts';
import type { Actor, RequestActor } from '#src/domain/access/visibility.ts';
import { guessFormat } from '#src/domain/documents/format-guess.ts';
import { type ChunkingOptions, withChunking } from '#src/domain/documents/rag-config.ts';
import { requireVersion } from '#src/errors.ts';
import type { FoldersService } from '#src/modules/folders/folders.service.ts';
import type { GenerationsService, IngestionPlan } from '#src/modules/ingestion/generations.service.ts';
import type { TierLimitsService } from '#src/modules/organization/tier-limits.service.ts';
import type { OriginalsService } from '#src/modules/originals/originals.service.ts';
import { requireOverlapBelowTarget } from './chunking-fields.ts';
import { lockWritable } from './document-access.ts';
import { createDocumentLinksRepository } from './document-links.repository.ts';
import type { DocumentPublisher } from './document-publisher.ts';
import { createDocumentTotalsRepository } from './document-totals.repository.ts';
import type { DocumentRow } from './documents.model.ts';
import { createDocumentsRepository } from './documents.repository.ts';
import type { UploadsService } from './uploads.service.ts';

/** What is undefined stays as it is. */
export type DocumentChange = {
  name: string | undefined;
  /** The only folder that the document is in from then on. */
  targetFolderId: string | undefined;
  /** Takes the place of the original. */
  file: StoredUpload | undefined;
  chunking: ChunkingOptions;
  ingest: boolean;
  /** Its ingestion comes after all that somebody waits for. */
  isBulk?: boolean;
  expected?: ExpectedVersions;
  /** Runs in the same transaction, once the document is locked and before it is changed; what it throws ends both. */
  alongside?: (trx: Knex) => Promise<void>;
};

export type ChangeDeps = {
  db: Knex;
  folders: Pick<FoldersService, 'requireTarget'>;
  generations: Pick<GenerationsService, 'open' | 'openIfNeeded' | 'carryOut'>;
  limits: Pick<TierLimitsService, 'transaction' | 'lock'>;
  originals: Pick<OriginalsService, 'letGo' | 'releaseNow'>;
  uploads: Pick<UploadsService, 'settle'>;
  publisher: Pick<DocumentPublisher, 'publishNow'>;
};

/** Renames, moves, replaces and configures documents. */
export function createDocumentChanges(deps: ChangeDeps) {
  const { db, folders, generations, limits, originals, uploads, publisher } = deps;

  /** The row as it will be, and the plan for its ingestion if one is wanted. */
  async function apply(
    trx: Knex,
    actor: RequestActor,
    documentId: string,
    change: DocumentChange,
  ): Promise<{ before: DocumentRow; plan: IngestionPlan | undefined }> {
    const { file, targetFolderId, ingest, isBulk = false, expected = null } = change;
    // In this order, as everybody takes them: two that wait for each other would wait for ever.
    const places = file && (await limits.lock(trx, actor.orgId));
    const folder = targetFolderId === undefined ? undefined : await folders.requireTarget(trx, actor, targetFolderId);
    const before = await lockWritable(trx, actor, documentId);
    requireVersion(expected, before);
    await change.alongside?.(trx);
    const repository = createDocumentsRepository(trx);
    if (file && places) {
      const { storageBytes } = await createDocumentTotalsRepository(trx).usage(actor.orgId);
      places.take('storageBytes', storageBytes, file.sizeBytes - before.sizeBytes);
    }
    const ragConfig = withChunking(before.ragConfig, change.chunking);
    requireOverlapBelowTarget(ragConfig.chunking);

    const after: DocumentRow = {
      ...before,
      ...(change.name !== undefined && { name: change.name }),
      ...(file !== undefined && originalOf(file)),
      ...(folder !== undefined && { acl: await move(trx, actor, documentId, folder.id) }),
      ragConfig,
      updatedBy: actor.userId,
    };
    await repository.update(after);
    if (file !== undefined) {
      await uploads.settle(trx, file);
      await originals.letGo(trx, before);
    }
    if (!ingest) return { before, plan: undefined };
    // The same bytes under another name may be of another format.
    const how = { isBulk };
    const plan = await (file
      ? generations.open(trx, actor, after, how)
      : generations.openIfNeeded(trx, actor, after, how));
    return { before, plan };
  }

  /** @returns the keys that it has from then on */
  async function move(trx: Knex, { orgId, userId }: Actor, documentId: string, folderId: string): Promise<string[]> {
    const links = createDocumentLinksRepository(trx);
    await links.moveTo({ orgId, folderId, documentId, createdBy: userId });
    return links.renewKeys(documentId);
  }

  return {
    /**
     * Throws `document_not_found`, `folder_not_found`, `storage_quota_exceeded`, and `forbidden` for who may only read
     * the document or the folder, and `precondition_failed`.
     */
    async change(actor: RequestActor, documentId: string, change: DocumentChange): Promise<void> {
      const work = (trx: Knex) => apply(trx, actor, documentId, change);
      const { before, plan } = await (change.file ? limits.transaction(actor.orgId, work) : db.transaction(work));
      await publisher.publishNow(documentId);
      if (plan !== undefined) await generations.carryOut(plan);
      if (change.file !== undefined) await originals.releaseNow(before);
    },
  };
}

function originalOf(file: StoredUpload) {
  return {
    fileName: file.fileName,
    mediaType: file.mediaType,
    declaredFormat: null,
    sourceFormat: guessFormat(file),
    sizeBytes: file.sizeBytes,
    contentSha256: file.sha256,
    blobKey: file.blobKey,
  };
}
