import type { Knex } from 'knex';
import type { Logger } from 'pino';
import type { AuditPageInput } from '#src/contracts/deletion.ts';
import { auditWorkflowId } from '#src/contracts/workflow-ids.ts';
import { type AuditPage, type FindingKind, maxDeletions, withFinding } from '#src/domain/documents/audit-report.ts';
import type { DeletionService } from '#src/modules/deletion/deletion.service.ts';
import type { GenerationsService } from '#src/modules/ingestion/generations.service.ts';
import type { JobsService } from '#src/modules/jobs/jobs.service.ts';
import type { OriginalsService } from '#src/modules/originals/originals.service.ts';
import type { BlobStore } from '#src/ports/blob-store.ts';
import type { VectorStore } from '#src/ports/vector-store.ts';
import { createStoreAuditRepository, type Finding } from './store-audit.repository.ts';
import { createStoreInspector } from './store-inspector.ts';

export type StoreAuditService = ReturnType<typeof createStoreAuditService>;

type DocumentKey = { orgId: string; id: string };

/** A repair acts as the user who changed the document last, without any further rights. */
const withoutRights = { isOrgAdmin: false, teamIds: [], teamAdminOf: [], openTeamIds: [], requestId: auditWorkflowId };

/** Repaired by deleting from another store. `maxDeletions` limits the loss if the database is the wrong one. */
const orphanKinds: readonly FindingKind[] = ['orphan_points', 'orphan_blob'];

/** Compares Postgres with the vector store and the blob store, and repairs differences. */
export function createStoreAuditService(deps: {
  db: Knex;
  vectors: Pick<VectorStore, 'listGenerations' | 'countGenerations' | 'deleteGenerations'>;
  blobs: Pick<BlobStore, 'list' | 'exists'>;
  originals: Pick<OriginalsService, 'release'>;
  deletion: Pick<DeletionService, 'enqueue'>;
  jobs: Pick<JobsService, 'dispatch'>;
  generations: Pick<GenerationsService, 'open' | 'carryOut'>;
  logger: Pick<Logger, 'warn' | 'error'>;
}) {
  const { db, vectors, originals, deletion, jobs, generations, logger } = deps;
  const repository = createStoreAuditRepository(db);
  const inspector = createStoreInspector(deps);

  /** Starts a new generation; the active one stays readable. @returns false if an ingestion is already in progress */
  async function reingest({ orgId, id }: DocumentKey): Promise<boolean> {
    const plan = await db.transaction(async (trx) => {
      const document = await createStoreAuditRepository(trx).lockIngestible({ orgId, id });
      if (document === undefined) return null;
      const actor = { ...withoutRights, orgId, userId: document.updatedBy };
      return generations.open(trx, actor, document, { isBulk: true });
    });
    if (plan === null) return false;
    await generations.carryOut(plan);
    return true;
  }

  async function requeueDeletion({ orgId, id: documentId }: DocumentKey): Promise<boolean> {
    const request = await repository.findDeletion({ orgId, id: documentId });
    if (request === undefined) return false;
    await jobs.dispatch(await deletion.enqueue(db, { orgId, documentId }, request));
    return true;
  }

  /** @returns whether a repair was made or started */
  async function repair({ kind, orgId, id, generation = 0 }: Finding, hasOriginal: boolean): Promise<boolean> {
    switch (kind) {
      case 'orphan_points':
        await vectors.deleteGenerations({ orgId, documentId: id, from: generation, before: generation + 1 });
        return true;
      case 'orphan_chunks':
        await repository.deleteGeneration({ orgId, id }, generation);
        return true;
      case 'orphan_blob':
        await originals.release({ orgId, blobKey: id });
        return true;
      case 'missing_points':
      case 'broken_chunks':
        return hasOriginal && reingest({ orgId, id });
      case 'lost_deletion':
        return requeueDeletion({ orgId, id });
      case 'missing_blob':
        return false;
    }
  }

  return {
    /** Audits one page of a pass. Safe to repeat: repaired differences are not found again. */
    async auditPage({ pass, after, graceSeconds, force = false, ...input }: AuditPageInput): Promise<AuditPage> {
      const { checked, findings, next } = await inspector.inspect(pass, after, graceSeconds);
      const withoutOriginal = new Set(findings.filter(({ kind }) => kind === 'missing_blob').map(({ id }) => id));
      const orphaned = findings.filter(({ kind }) => orphanKinds.includes(kind)).length;
      const isHeldBack = input.repair && !force && orphaned > maxDeletions(checked);
      if (isHeldBack)
        logger.error(
          { pass, checked, orphaned },
          'too many orphans: not deleting them, the database may be the wrong one',
        );
      let summaries: AuditPage['findings'] = {};
      for (const finding of findings) {
        const { kind, orgId, id, detail } = finding;
        logger.warn({ kind, orgId, id, detail }, 'store difference found');
        const heldBack = isHeldBack && orphanKinds.includes(kind) ? 1 : 0;
        const isRepaired = input.repair && heldBack === 0 && (await repair(finding, !withoutOriginal.has(id)));
        summaries = withFinding(summaries, kind, { found: 1, repaired: isRepaired ? 1 : 0, heldBack, first: [id] });
      }
      return { checked, findings: summaries, next };
    },
  };
}
