import { NIL } from 'uuid';
import type { AuditPass } from '#src/domain/audit-report.ts';
import type { BlobStore } from '#src/ports/blob-store.ts';
import type { Db } from '#src/ports/database.ts';
import type { GenerationKey, VectorStore } from '#src/ports/vector-store.ts';
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
  vectors: Pick<VectorStore, 'listGenerations' | 'countGeneration'>;
  blobs: Pick<BlobStore, 'list' | 'exists'>;
}) {
  const { db, vectors, blobs } = deps;
  const repository = createStoreAuditRepository(db);

  /** Points first, documents after: a generation that is not needed then never is again. */
  async function inspectPoints(after: string | null, graceSeconds: number): Promise<InspectedPage> {
    const page = await vectors.listGenerations({ after: parseGeneration(after), limit: GENERATIONS_AT_ONCE });
    const ids = [...new Set(page.map((of) => of.documentId))];
    const kept = await repository.findKeptGenerations(ids, graceSeconds);
    const findings = page.flatMap(({ orgId, documentId, generation, count }): Finding[] => {
      const document = kept.get(`${orgId}/${documentId}`);
      if (document !== undefined) {
        const { activeGeneration, generation: newest, isSettled } = document;
        if (generation === activeGeneration || generation === newest || !isSettled) return [];
      }
      const detail = `${count} vectors of generation ${generation} belong to ${document ? 'no generation that is needed' : 'no document'}.`;
      return [{ kind: 'orphan_points', orgId, id: documentId, generation, detail }];
    });
    const last = page.length < GENERATIONS_AT_ONCE ? undefined : page.at(-1);
    return {
      checked: page.length,
      findings,
      next: last ? `${last.orgId}/${last.documentId}/${last.generation}` : null,
    };
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
      const faults = faultsOf(document, points.get(document.id) ?? 0, hasBlob[index] === true);
      if (faults.length > 0) findings.push(...(await lookAgain(document)));
    }
    const last = documents.length < DOCUMENTS_AT_ONCE ? undefined : documents.at(-1);
    return { checked: documents.length, findings, next: last ? `${last.orgId}/${last.id}` : null };
  }

  /** Both are in the same order, so that one goes through each of them once. */
  async function countPoints(documents: readonly ActiveDocument[]): Promise<Map<string, number>> {
    const active = new Map(documents.map((document) => [document.id, document.activeGeneration]));
    const counts = new Map<string, number>();
    const [first, last] = [documents.at(0), documents.at(-1)];
    if (first === undefined || last === undefined) return counts;
    for (let from: GenerationKey | undefined = { orgId: first.orgId, documentId: first.id, generation: 0 }; from; ) {
      const page = await vectors.listGenerations({ after: from, limit: GENERATIONS_AT_ONCE });
      for (const { documentId, generation, count } of page) {
        if (active.get(documentId) === generation) counts.set(documentId, count);
      }
      const end: GenerationKey | undefined = page.at(-1);
      const isDone = page.length < GENERATIONS_AT_ONCE || end === undefined || isPast(end, last);
      from = isDone ? undefined : end;
    }
    return counts;
  }

  /** An activation, a replacement or a deletion between two questions looks like a fault. */
  async function lookAgain({ orgId, id }: ActiveDocument): Promise<Finding[]> {
    const document = await repository.findDocument({ orgId, id });
    if (document === undefined) return [];
    const { activeGeneration, blobKey } = document;
    const points =
      activeGeneration === null
        ? 0
        : await vectors.countGeneration({ orgId, documentId: id, generation: activeGeneration });
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
      .map(({ key, sizeBytes }): Finding => {
        const [orgId = ''] = key.split('/');
        return { kind: 'orphan_blob', orgId, id: key, detail: `${sizeBytes} bytes that no document refers to.` };
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

function parseGeneration(text: string | null): GenerationKey | null {
  if (text === null) return null;
  const [orgId = NIL, documentId = NIL, generation] = text.split('/');
  return { orgId, documentId, generation: Number(generation) };
}

/** Ids are compared as Postgres does: by their bytes, which is the order of their digits. */
function isPast({ orgId, documentId }: GenerationKey, last: ActiveDocument): boolean {
  return orgId > last.orgId || (orgId === last.orgId && documentId > last.id);
}
