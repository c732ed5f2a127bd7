import type { Knex } from 'knex';
import type { Logger } from 'pino';
import { NIL } from 'uuid';
import type { AuditStorePageInput } from '#src/contracts/deletion.ts';
import { auditWorkflowId } from '#src/contracts/workflow-ids.ts';
import {
  type AuditedStorePage,
  addStoreAuditFinding,
  maxOrphanDeletions,
  type StoreAuditFindingKind,
  type StoreAuditStage,
} from '#src/domain/documents/audit-report.ts';
import { organizationOfBlobKey } from '#src/domain/documents/blob-keys.ts';
import type { DeletionService } from '#src/modules/deletion/deletion.service.ts';
import type { GenerationsService } from '#src/modules/ingestion/generations.service.ts';
import type { JobsService } from '#src/modules/jobs/jobs.service.ts';
import type { OriginalFilesService } from '#src/modules/originals/originals.service.ts';
import type { BlobStore } from '#src/ports/blob-store.ts';
import type { VectorStore } from '#src/ports/vector-store.ts';
import {
  type AuditedDocument,
  createStoreAuditRepository,
  type StoreAuditFinding,
  type StoreInspectionPage,
} from './store-audit.repository.ts';

const GENERATIONS_PER_PAGE = 1_000;
const DOCUMENTS_PER_PAGE = 500;
/** Blobs per listed page: many, because the file store reads a whole folder for each page. */
const BLOBS_PER_PAGE = 5_000;

export type StoreAuditService = ReturnType<typeof createStoreAuditService>;

type DocumentKey = { orgId: string; id: string };

/** A repair acts in the name of the user who last changed the document, but without team and admin rights. */
const withoutRights = {
  isOrgAdmin: false,
  teamIds: [],
  teamAdminOf: [],
  openTeamIds: [],
  contributesToOrganization: false,
  requestId: auditWorkflowId,
};

/**
 * Kinds of findings whose repair deletes data. `maxOrphanDeletions` limits these deletions, because all data looks
 * orphaned if the wrong database is configured.
 */
const orphanKinds: readonly StoreAuditFindingKind[] = ['orphan_points', 'orphan_blob'];

export function createStoreAuditService(deps: {
  db: Knex;
  vectors: Pick<VectorStore, 'listGenerations' | 'countGenerations' | 'deleteGenerations'>;
  blobs: Pick<BlobStore, 'list' | 'exists'>;
  originals: Pick<OriginalFilesService, 'release'>;
  deletion: Pick<DeletionService, 'enqueue'>;
  jobs: Pick<JobsService, 'dispatch'>;
  generations: Pick<GenerationsService, 'open' | 'carryOut'>;
  logger: Pick<Logger, 'warn' | 'error'>;
}) {
  const { db, vectors, originals, deletion, jobs, generations, logger } = deps;
  const repository = createStoreAuditRepository(db);
  const inspector = createStoreAuditInspector(deps);

  /**
   * Ingests a document as a new generation; the active one stays readable. Returns false if the document is deleted or
   * already being ingested.
   */
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

  async function repair(
    { kind, orgId, id, generation = 0 }: StoreAuditFinding,
    hasOriginal: boolean,
  ): Promise<boolean> {
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
    /**
     * Audits one page of a stage, and repairs differences if requested. A page that is audited again finds no
     * difference that it has repaired before.
     */
    async auditPage({
      pass,
      after,
      graceSeconds,
      force = false,
      ...input
    }: AuditStorePageInput): Promise<AuditedStorePage> {
      const { checked, findings, next } = await inspector.inspect(pass, after, graceSeconds);
      const withoutOriginal = new Set(findings.filter(({ kind }) => kind === 'missing_blob').map(({ id }) => id));
      const orphaned = findings.filter(({ kind }) => orphanKinds.includes(kind)).length;
      const isHeldBack = input.repair && !force && orphaned > maxOrphanDeletions(checked);
      if (isHeldBack)
        logger.error({ pass, checked, orphaned }, 'too many orphans, none deleted: the database may be the wrong one');
      let summaries: AuditedStorePage['findings'] = {};
      for (const finding of findings) {
        const { kind, orgId, id, detail } = finding;
        logger.warn({ kind, orgId, id, detail }, 'store difference found');
        const heldBack = isHeldBack && orphanKinds.includes(kind) ? 1 : 0;
        const isRepaired = input.repair && heldBack === 0 && (await repair(finding, !withoutOriginal.has(id)));
        summaries = addStoreAuditFinding(summaries, kind, {
          found: 1,
          repaired: isRepaired ? 1 : 0,
          heldBack,
          first: [id],
        });
      }
      return { checked, findings: summaries, next };
    },
  };
}

/**
 * Compares Postgres with the vector and blob stores page by page while the service is running. Changes in progress are
 * not faults: the comparison skips recent changes, and reads documents with a fault a second time.
 */
export function createStoreAuditInspector(deps: {
  db: Knex;
  vectors: Pick<VectorStore, 'listGenerations' | 'countGenerations'>;
  blobs: Pick<BlobStore, 'list' | 'exists'>;
}) {
  const { db, vectors, blobs } = deps;
  const repository = createStoreAuditRepository(db);

  /** Reads vectors before documents: a generation that no document uses by then can never be used again. */
  async function inspectPoints(after: string | null, graceSeconds: number): Promise<StoreInspectionPage> {
    const { generations, next } = await vectors.listGenerations({ after, limit: GENERATIONS_PER_PAGE });
    const ids = [...new Set(generations.map((generation) => generation.documentId))];
    const kept = await repository.findKeptGenerations(ids, graceSeconds);
    const findings = generations.flatMap(({ orgId, documentId, generation }): StoreAuditFinding[] => {
      const document = kept.get(`${orgId}/${documentId}`);
      if (document !== undefined) {
        const { activeGeneration, generation: newest, isSettled } = document;
        if (generation === activeGeneration || generation === newest || !isSettled) return [];
      }
      const detail = `The vectors belong to ${document ? 'an unused generation' : 'no document'}.`;
      return [{ kind: 'orphan_points', orgId, id: documentId, generation, detail }];
    });
    return { checked: generations.length, findings, next };
  }

  async function inspectDocuments(after: string | null, graceSeconds: number): Promise<StoreInspectionPage> {
    const [orgId = NIL, id = NIL] = after?.split('/') ?? [];
    const documents = await repository.listDocuments({ after: { orgId, id }, limit: DOCUMENTS_PER_PAGE, graceSeconds });
    const [points, hasBlob] = await Promise.all([
      countPoints(documents),
      Promise.all(documents.map((document) => blobs.exists(document.blobKey))),
    ]);
    const findings: StoreAuditFinding[] = [];
    for (const [index, document] of documents.entries()) {
      for (const generation of document.orphanGenerations) {
        const detail = `Generation ${generation} is neither the active nor the newest one.`;
        findings.push({ kind: 'orphan_chunks', orgId: document.orgId, id: document.id, generation, detail });
      }
      const faults = faultsOf(document, points[index] ?? 0, hasBlob[index] === true);
      if (faults.length > 0) findings.push(...(await confirmFaults(document)));
    }
    const last = documents.length < DOCUMENTS_PER_PAGE ? undefined : documents.at(-1);
    return { checked: documents.length, findings, next: last ? `${last.orgId}/${last.id}` : null };
  }

  function countPoints(documents: readonly AuditedDocument[]): Promise<number[]> {
    return vectors.countGenerations(
      documents.map(({ orgId, id, activeGeneration }) => ({
        orgId,
        documentId: id,
        // Generation 0 never exists, so the number of vectors is 0 for a document without an active generation.
        generation: activeGeneration ?? 0,
      })),
    );
  }

  /**
   * Checks a document with a fault again, because an activation, replacement or deletion between reading Postgres and
   * the other store looks like a fault.
   */
  async function confirmFaults({ orgId, id }: AuditedDocument): Promise<StoreAuditFinding[]> {
    const document = await repository.findDocument({ orgId, id });
    if (document === undefined) return [];
    const { activeGeneration, blobKey } = document;
    const [points = 0] = await countPoints([document]);
    const faults = faultsOf(document, points, await blobs.exists(blobKey));
    const current = await repository.findDocument({ orgId, id });
    return current?.activeGeneration === activeGeneration && current.blobKey === blobKey ? faults : [];
  }

  async function inspectBlobs(after: string | null, graceSeconds: number): Promise<StoreInspectionPage> {
    const page = await blobs.list({ after, limit: BLOBS_PER_PAGE });
    const oldest = Date.now() - graceSeconds * 1_000;
    const settled = page.filter((blob) => blob.storedAt.getTime() <= oldest);
    const used = await repository.findUsedBlobs(settled.map((blob) => blob.key));
    const findings = settled
      .filter((blob) => !used.has(blob.key))
      .flatMap(({ key, sizeBytes }): StoreAuditFinding[] => {
        const orgId = organizationOfBlobKey(key);
        // A key without an organization belongs to another application that uses the bucket.
        if (orgId === null) return [];
        return [{ kind: 'orphan_blob', orgId, id: key, detail: `No document refers to these ${sizeBytes} bytes.` }];
      });
    return { checked: page.length, findings, next: page.length < BLOBS_PER_PAGE ? null : (page.at(-1)?.key ?? null) };
  }

  async function inspectDeletions(after: string | null, graceSeconds: number): Promise<StoreInspectionPage> {
    const page = await repository.listDeletions({ after: after ?? NIL, limit: DOCUMENTS_PER_PAGE, graceSeconds });
    const findings = page
      .filter((deletion) => deletion.isLost)
      .map(({ orgId, id }): StoreAuditFinding => {
        return {
          kind: 'lost_deletion',
          orgId,
          id,
          detail: 'The deletion of the document was requested, but no deletion job is open.',
        };
      });
    return {
      checked: page.length,
      findings,
      next: page.length < DOCUMENTS_PER_PAGE ? null : (page.at(-1)?.id ?? null),
    };
  }

  const passes = {
    points: inspectPoints,
    documents: inspectDocuments,
    blobs: inspectBlobs,
    deletions: inspectDeletions,
  } satisfies Record<StoreAuditStage, unknown>;

  return {
    inspect: (pass: StoreAuditStage, after: string | null, graceSeconds: number): Promise<StoreInspectionPage> =>
      passes[pass](after, graceSeconds),
  };
}

function faultsOf(document: AuditedDocument, points: number, hasBlob: boolean): StoreAuditFinding[] {
  const { orgId, id, activeGeneration, chunksTotal, chunks, firstIndex, lastIndex, blobKey } = document;
  const findings: StoreAuditFinding[] = [];
  if (!hasBlob) {
    findings.push({ kind: 'missing_blob', orgId, id, detail: `The original ${blobKey} is missing.` });
  }
  if (activeGeneration === null) return findings;
  const generation = { orgId, id, generation: activeGeneration };
  if (chunks !== chunksTotal || firstIndex !== 0 || lastIndex !== chunks - 1) {
    const detail = `${chunks} of ${chunksTotal} chunks are stored, with indices ${firstIndex} to ${lastIndex}.`;
    findings.push({ kind: 'broken_chunks', ...generation, detail });
  }
  if (points !== chunks) {
    findings.push({
      kind: 'missing_points',
      ...generation,
      detail: `There are ${points} vectors for ${chunks} chunks.`,
    });
  }
  return findings;
}
