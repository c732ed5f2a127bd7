import { setTimeout as delay } from 'node:timers/promises';
import type { Knex } from 'knex';
import type {
  EraseRowsInput,
  EraseSliceInput,
  EraseSliceResult,
  ErasureStage,
  ErasureSubject,
  FinishErasureInput,
  RecordErasureFailureInput,
  RecordErasureInput,
} from '#src/contracts/deletion.ts';
import { erasureWorkflowId } from '#src/contracts/workflow-ids.ts';
import { accessKeyOfOrgAdmins } from '#src/domain/access/visibility.ts';
import { appError } from '#src/errors.ts';
import type { AuditService } from '#src/modules/audit/audit.service.ts';
import type { ConnectionsService } from '#src/modules/connectors/connections.service.ts';
import type { DeletionRequest, DeletionService } from '#src/modules/deletion/deletion.service.ts';
import type { DocumentsService } from '#src/modules/documents/documents.service.ts';
import type { ExportsService } from '#src/modules/exports/exports.service.ts';
import type { JobsService } from '#src/modules/jobs/jobs.service.ts';
import type { Orchestrator } from '#src/ports/orchestrator.ts';
import { createErasureRepository, type DocumentToErase } from './erasure.repository.ts';

/**
 * Concurrent document deletions of an erasure: enough to keep workers busy, few enough that deletions requested by
 * users do not wait.
 */
const DELETIONS_AT_ONCE = 20;
const SLICE_MS = 30_000;
const POLL_INTERVAL_MS = 200;
const LATE_AT_ONCE = 100;

const idOf = ({ orgId, userId }: ErasureSubject): string => erasureWorkflowId(userId ?? orgId);

export type ErasureService = ReturnType<typeof createErasureService>;

/** Steps of the workflow `eraseContent`. Each deletes in batches what is left, so it can be repeated. */
export function createErasureService(deps: {
  db: Knex;
  documents: Pick<DocumentsService, 'discard'>;
  deletion: Pick<DeletionService, 'enqueue'>;
  jobs: Pick<JobsService, 'enqueue' | 'dispatch' | 'advance'>;
  orchestrator: Pick<Orchestrator, 'cancel' | 'describe'>;
  connections: Pick<ConnectionsService, 'forget'>;
  exports: Pick<ExportsService, 'forget'>;
  audit: AuditService;
}) {
  const { db, documents, deletion, jobs, orchestrator, connections, exports, audit } = deps;
  const repository = createErasureRepository(db);

  async function enter(of: ErasureSubject, stage: ErasureStage, erased?: number): Promise<void> {
    const progress = erased === undefined ? {} : { progress: { done: erased, total: null, unit: 'items' } };
    await jobs.advance(idOf(of), { status: 'running', stage, ...progress });
  }

  /**
   * Deletes a document in the name of its creator, with an access key that lets org admins see and retry the deletion
   * job.
   */
  const requestOf = (of: ErasureSubject, { createdBy }: DocumentToErase): DeletionRequest => ({
    createdBy,
    acl: [accessKeyOfOrgAdmins(of.orgId)],
    requestId: idOf(of),
  });

  async function deleteAgain(of: ErasureSubject, document: DocumentToErase): Promise<void> {
    const key = { orgId: of.orgId, documentId: document.id };
    await jobs.dispatch(await deletion.enqueue(db, key, requestOf(of, document)));
  }

  async function enqueue(
    trx: Knex,
    of: ErasureSubject,
    { dueAt, createdBy, requestId }: { dueAt: Date; createdBy: string; requestId: string | null },
  ): Promise<string> {
    const id = idOf(of);
    const whose = of.userId === null ? 'a deleted organization' : 'a deleted user';
    await jobs.enqueue(trx, {
      id,
      kind: 'erase',
      orgId: of.orgId,
      createdBy,
      acl: [accessKeyOfOrgAdmins(of.orgId)],
      start: {
        workflow: 'eraseContent',
        input: { orgId: of.orgId, userId: of.userId, dueAt: dueAt.toISOString() },
        summary: `Erase the data of ${whose}`,
        bulk: true,
      },
      requestId,
    });
    return id;
  }

  return {
    enqueue,

    /**
     * Stops the background work of a deleted user or organization: cancels its workflow runs and waits until they end,
     * revokes and deletes its connections with their schedules, and deletes its exports.
     */
    async stopWork(of: ErasureSubject, signal: AbortSignal): Promise<void> {
      await enter(of, 'stop');
      const runs = await repository.listOpenRuns(of);
      for (const workflowId of runs) await orchestrator.cancel(workflowId);
      for (const workflowId of runs) {
        while ((await orchestrator.describe(workflowId)) === 'open') {
          await delay(POLL_INTERVAL_MS, undefined, { signal });
        }
      }
      // Closes jobs that were never started or whose workflow run was terminated, because no run is left to close them.
      for (const workflowId of await repository.listOpenRuns(of)) {
        await jobs.advance(workflowId, { status: 'cancelled' });
      }
      for (const connectionId of await repository.listConnections(of)) {
        await connections.forget({ orgId: of.orgId, connectionId });
      }
      if (await repository.isGone(of)) await exports.forget(of);
      await enter(of, 'wait');
    },

    /** Deletes documents, up to 20 at a time. Throws `erasure_incomplete` if the deletion of one fails. */
    async eraseDocuments({ erased, ...of }: EraseSliceInput, signal: AbortSignal): Promise<EraseSliceResult> {
      await enter(of, 'documents', erased);
      const endMs = performance.now() + SLICE_MS;
      const triedAgain = new Set<string>();
      for (let begun = 0; ; ) {
        signal.throwIfAborted();
        const underWay = await repository.listDeletions(of);
        for (const document of underWay.filter(({ isStopped }) => isStopped)) {
          if (triedAgain.has(document.id)) {
            throw appError('erasure_incomplete', {
              detail: `The document ${document.id} could not be deleted. See the error of the job delete-${document.id}.`,
            });
          }
          triedAgain.add(document.id);
          await deleteAgain(of, document);
        }
        const room = DELETIONS_AT_ONCE - underWay.length;
        const next = room > 0 ? await repository.listDocuments(of, room) : [];
        for (const document of next) {
          await documents.discard({ orgId: of.orgId, documentId: document.id }, requestOf(of, document));
          begun += 1;
        }
        if (underWay.length + next.length === 0) return { erased: begun, isMore: false };
        if (performance.now() > endMs) return { erased: begun, isMore: true };
        await delay(POLL_INTERVAL_MS, undefined, { signal });
      }
    },

    async eraseRows({ what, erased, ...of }: EraseRowsInput, signal: AbortSignal): Promise<EraseSliceResult> {
      await enter(of, what, erased);
      const endMs = performance.now() + SLICE_MS;
      for (let deleted = 0; ; ) {
        signal.throwIfAborted();
        const some = await repository.deleteRows(of, what);
        deleted += some;
        if (some === 0) return { erased: deleted, isMore: false };
        if (performance.now() > endMs) return { erased: deleted, isMore: true };
      }
    },

    /**
     * Last step of an erasure: erases the personal data of the user, or the organization with its members, and records
     * the counts in the audit log. Erases nothing and returns `isMore` if new content was stored meanwhile.
     */
    async forget({ byKind, ...of }: FinishErasureInput): Promise<{ isMore: boolean }> {
      await enter(of, 'forget');
      return db.transaction(async (trx) => {
        const erasure = createErasureRepository(trx);
        if (await erasure.isContentLeft(of)) return { isMore: true };
        const { orgId, userId } = of;
        const isNews = await (userId === null ? erasure.forgetOrganization(orgId) : erasure.forgetUser(userId));
        const action = userId === null ? 'organization.erased' : 'account.erased';
        const entry = {
          ...{ orgId, actorId: null, action, target: userId ?? orgId, requestId: idOf(of) },
          detail: { ...byKind },
        };
        if (isNews) await audit.record(trx, entry);
        return { isMore: false };
      });
    },

    async recordErasure({ attempt, startId, ...of }: RecordErasureInput): Promise<void> {
      await jobs.advance(idOf(of), { status: 'succeeded' }, { attempt, startId });
    },

    async recordParked({ error, ...of }: RecordErasureFailureInput): Promise<void> {
      await jobs.advance(idOf(of), { status: 'parked', error });
    },

    async recordResumed(of: ErasureSubject): Promise<void> {
      await jobs.advance(idOf(of), { status: 'running' });
    },

    async recordFailure({ error, attempt, startId, ...of }: RecordErasureFailureInput): Promise<void> {
      await jobs.advance(idOf(of), { status: 'failed', error }, { attempt, startId });
    },

    /**
     * Queues another erasure of users for whom a request stored content after their erasure had ended.
     * @returns the number of erasures
     */
    async eraseLate(): Promise<number> {
      const late = await repository.listLate(LATE_AT_ONCE);
      for (const { orgId, userId, dueAt } of late) {
        await enqueue(db, { orgId, userId }, { dueAt, createdBy: userId, requestId: null });
      }
      return late.length;
    },
  };
}
