import { NIL } from 'uuid';
import type { AuditPass } from '#src/domain/audit-report.ts';
import { organizationOf } from '#src/domain/original-key.ts';
import type { BlobStore } from '#src/ports/blob-store.ts';
import type { Db } from '#src/ports/database.ts';
import type { VectorStore } from '#src/ports/vector-store.ts';
import type { ActiveDocument, Finding, InspectedPage } from './store-audit.model.ts';
import { createStoreAuditRepository } from './store-audit.repository.ts';

const GENERATIONS_AT_ONCE = 1_000;
const DOCUMENTS_AT_ONCE = 500;
/** A page of files costs a look at all names of its folder. */
const BLOBS_AT_ONCE = 5_000;

export type StoreInspector = ReturnType<typeof createStoreInspector>;

/**
 * Compares Postgres with the other stores, a page at a time, while all of them are in use: what is on its way is told
 * from what is wrong by its age, or by a second look.
 */
export function createStoreInspector(deps: {
  db: Db;
  vectors: Pick<VectorStore, 'listGenerations' | 'countGenerations'>;
  blobs: Pick<BlobStore, 'list' | 'exists'>;
}) {
  const { db, vectors, blobs } = deps;
  const repository = createStoreAuditRepository(db);

  /** Points first, documents after: a generation that is not needed then never is again. */
  async function inspectPoints(after: string | null, graceSeconds: number): Promise<InspectedPage> {
    const { generations, next } = await vectors.listGenerations({ after, limit: GENERATIONS_AT_ONCE });
    const ids = [...new Set(generations.map((of) => of.documentId))];
    const kept = await repository.findKeptGenerations(ids, graceSeconds);
    const findings = generations.flatMap(({ orgId, documentId, generation }): Finding[] => {
      const document = kept.get(`${orgId}/${documentId}`);
      if (document !== undefined) {
        const { activeGeneration, generation: newest, isSettled } = document;
        if (generation === activeGeneration || generation === newest || !isSettled) return [];
      }
      const detail = `Its vectors belong to ${document ? 'no generation that is needed' : 'no document'}.`;
      return [{ kind: 'orphan_points', orgId, id: documentId, generation, detail }];
    });
    return { checked: generations.length, findings, next };
  }

  async function inspectDocuments(after: string | null, graceSeconds: number): Promise<InspectedPage> {
    const [orgId = NIL, id = NIL] = after?.split('/') ?? [];
    const documents = await repository.listDocuments({ after: { orgId, id }, limit: DOCUMENTS_AT_ONCE, graceSeconds });
    const [points, hasBlob] = await Promise.all([
      countPoints(documents),
      Promise.all(documents.map((document) => blobs.exists(document.blobKey))),
    ]);
    const findings: Finding[] = [];
    for (const [index, document] of documents.entries()) {
      for (const generation of document.orphanGenerations) {
        const detail = `Generation ${generation} is neither the active nor the newest one.`;
        findings.push({ kind: 'orphan_chunks', orgId: document.orgId, id: document.id, generation, detail });
      }
      const faults = faultsOf(document, points[index] ?? 0, hasBlob[index] === true);
      if (faults.length > 0) findings.push(...(await lookAgain(document)));
    }
    const last = documents.length < DOCUMENTS_AT_ONCE ? undefined : documents.at(-1);
    return { checked: documents.length, findings, next: last ? `${last.orgId}/${last.id}` : null };
  }

  /** Of the active generations, in the order of the documents; 0 where there is none. */
  function countPoints(documents: readonly ActiveDocument[]): Promise<number[]> {
    return vectors.countGenerations(
      documents.map(({ orgId, id, activeGeneration }) => ({
        orgId,
        documentId: id,
        // Numbers of generations begin at 1.
        generation: activeGeneration ?? 0,
      })),
    );
  }

  /** An activation, a replacement or a deletion between two questions looks like a fault. */
  async function lookAgain({ orgId, id }: ActiveDocument): Promise<Finding[]> {
    const document = await repository.findDocument({ orgId, id });
    if (document === undefined) return [];
    const { activeGeneration, blobKey } = document;
    const [points = 0] = await countPoints([document]);
    const faults = faultsOf(document, points, await blobs.exists(blobKey));
    const still = await repository.findDocument({ orgId, id });
    return still?.activeGeneration === activeGeneration && still.blobKey === blobKey ? faults : [];
  }

  async function inspectBlobs(after: string | null, graceSeconds: number): Promise<InspectedPage> {
    const page = await blobs.list({ after, limit: BLOBS_AT_ONCE });
    const oldest = Date.now() - graceSeconds * 1_000;
    const settled = page.filter((blob) => blob.storedAt.getTime() <= oldest);
    const used = await repository.findUsedBlobs(settled.map((blob) => blob.key));
    const findings = settled
      .filter((blob) => !used.has(blob.key))
      .flatMap(({ key, sizeBytes }): Finding[] => {
        const orgId = organizationOf(key);
        // What somebody else keeps in the same place is his.
        if (orgId === null) return [];
        return [{ kind: 'orphan_blob', orgId, id: key, detail: `${sizeBytes} bytes that no document refers to.` }];
      });
    return { checked: page.length, findings, next: page.length < BLOBS_AT_ONCE ? null : (page.at(-1)?.key ?? null) };
  }

  async function inspectDeletions(after: string | null, graceSeconds: number): Promise<InspectedPage> {
    const page = await repository.listDeletions({ after: after ?? NIL, limit: DOCUMENTS_AT_ONCE, graceSeconds });
    const findings = page
      .filter((deletion) => deletion.isLost)
      .map(({ orgId, id }): Finding => {
        return { kind: 'lost_deletion', orgId, id, detail: 'Its deletion was asked for, and nobody works on it.' };
      });
    return { checked: page.length, findings, next: page.length < DOCUMENTS_AT_ONCE ? null : (page.at(-1)?.id ?? null) };
  }

  const passes = {
    points: inspectPoints,
    documents: inspectDocuments,
    blobs: inspectBlobs,
    deletions: inspectDeletions,
  } satisfies Record<AuditPass, unknown>;

  return {
    /** One page of one pass; `after` is the `next` of the page before. */
    inspect: (pass: AuditPass, after: string | null, graceSeconds: number): Promise<InspectedPage> =>
      passes[pass](after, graceSeconds),
  };
}

function faultsOf(document: ActiveDocument, points: number, hasBlob: boolean): Finding[] {
  const { orgId, id, activeGeneration, chunksTotal, chunks, firstIndex, lastIndex, blobKey } = document;
  const findings: Finding[] = [];
  if (!hasBlob) {
    findings.push({ kind: 'missing_blob', orgId, id, detail: `There is no original ${blobKey}.` });
  }
  if (activeGeneration === null) return findings;
  const generation = { orgId, id, generation: activeGeneration };
  if (chunks !== chunksTotal || firstIndex !== 0 || lastIndex !== chunks - 1) {
    const detail = `Of ${chunksTotal} chunks there are ${chunks}, with indices from ${firstIndex} to ${lastIndex}.`;
    findings.push({ kind: 'broken_chunks', ...generation, detail });
  }
  if (points !== chunks) {
    findings.push({ kind: 'missing_points', ...generation, detail: `${points} vectors stand for ${chunks} chunks.` });
  }
  return findings;
}
