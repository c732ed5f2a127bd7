import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import type { QueueSyncInput, QueueSyncResult } from '#src/contracts/connectors.ts';
import type { ListPosition } from '#src/contracts/list-position.ts';
import { syncWorkflowId } from '#src/contracts/workflow-ids.ts';
import type { Actor, RequestActor } from '#src/domain/access/visibility.ts';
import type { SyncConfig } from '#src/domain/documents/sync-schedule.ts';
import { appError } from '#src/errors.ts';
import type { JobsService } from '#src/modules/jobs/jobs.service.ts';
import { createConnectionSchedulesRepository } from './connection-schedules.repository.ts';
import { createImportRunsRepository } from './import-runs.repository.ts';
import type { ImportConnection, ImportRunRow } from './imports.model.ts';

export type SyncsService = ReturnType<typeof createSyncsService>;

/** Syncs of connections: one at a time each, begun by their schedule or by their owner. */
export function createSyncsService(deps: {
  db: Knex;
  jobs: Pick<JobsService, 'enqueue' | 'isOpen' | 'find' | 'retry' | 'dispatch'>;
  findActor: (userId: string) => Promise<Actor | null>;
}) {
  const { db, jobs, findActor } = deps;
  const runs = createImportRunsRepository(db);

  async function requireOwn(trx: Knex, actor: Actor, connectionId: string): Promise<ImportConnection> {
    const connection = await createImportRunsRepository(trx).lockConnection({ orgId: actor.orgId, connectionId });
    if (connection?.userId !== actor.userId) throw appError('connection_not_found');
    return connection;
  }

  /** @returns its id; the job is to be dispatched after the commit */
  async function open(
    trx: Knex,
    { id: connectionId, orgId, userId }: ImportConnection,
    sync: SyncConfig,
    how: { requestId: string | null; acceptsDeletions: boolean },
  ): Promise<string> {
    const repository = createImportRunsRepository(trx);
    const jobId = syncWorkflowId(connectionId);
    const of = { orgId, connectionId, runId: uuidv7() };
    await repository.insert({
      id: of.runId,
      ...{ orgId, connectionId, jobId },
      kind: 'sync',
      targetFolderId: sync.target_folder_id ?? null,
      folder: sync.folder ?? '',
      deletesMissing: sync.delete_missing ?? false,
    });
    if (how.acceptsDeletions) await repository.update(of, { acceptsDeletions: true });
    await jobs.enqueue(trx, {
      id: jobId,
      kind: 'sync',
      orgId,
      createdBy: userId,
      acl: [`user:${userId}`],
      connectionId,
      start: { workflow: 'syncConnection', input: of, summary: `Sync connection ${connectionId}`, bulk: true },
      requestId: how.requestId,
    });
    return of.runId;
  }

  return {
    /**
     * Begins a sync, or finds the one that is under way. Throws `connection_not_found`, `sync_not_configured`.
     * @param acceptsDeletions lets it delete however many documents it finds missing; one that waits for that goes on
     */
    async start(actor: RequestActor, connectionId: string, acceptsDeletions: boolean): Promise<ImportRunRow> {
      const { orgId, requestId } = actor;
      const jobId = syncWorkflowId(connectionId);
      const runId = await db.transaction(async (trx) => {
        const connection = await requireOwn(trx, actor, connectionId);
        const { sync } = connection.config;
        if (sync == null) throw appError('sync_not_configured');
        const repository = createImportRunsRepository(trx);
        if (!(await jobs.isOpen(trx, jobId))) return open(trx, connection, sync, { requestId, acceptsDeletions });
        const [underWay] = (await repository.listSyncs({ orgId, connectionId }, { limit: 1, after: null })).items;
        if (underWay === undefined) throw appError('job_open');
        if (acceptsDeletions) {
          await repository.update({ orgId, connectionId, runId: underWay.id }, { acceptsDeletions });
          if (underWay.errorCode === 'mass_deletion') await jobs.retry(trx, jobId);
        }
        return underWay.id;
      });
      await jobs.dispatch(jobId);
      const run = await runs.find({ orgId, connectionId, runId });
      if (run === undefined) throw appError('connection_not_found');
      return run;
    },

    /** Of a schedule, whose connection may have changed since. */
    async queueScheduled({ orgId, connectionId }: QueueSyncInput): Promise<QueueSyncResult> {
      const jobId = syncWorkflowId(connectionId);
      const reason = await db.transaction(async (trx) => {
        const connection = await createImportRunsRepository(trx).lockConnection({ orgId, connectionId });
        if (connection === undefined) {
          await createConnectionSchedulesRepository(trx).remember({ orgId, connectionId });
          return 'the connection is gone.';
        }
        const { sync } = connection.config;
        if (sync == null || !sync.enabled) return 'it is not to be synced any more.';
        if ((await findActor(connection.userId)) === null) return 'the account of its owner is not active.';
        if (await jobs.isOpen(trx, jobId)) return 'the last sync is still under way, or waits for somebody.';
        await open(trx, connection, sync, { requestId: null, acceptsDeletions: false });
        return null;
      });
      if (reason !== null) return { jobId: null, reason };
      await jobs.dispatch(jobId);
      return { jobId, reason: 'it is time.' };
    },

    /** Newest first. Throws `connection_not_found`. */
    async list(
      actor: Actor,
      connectionId: string,
      page: { limit: number; after: ListPosition | null },
    ): Promise<{ items: ImportRunRow[]; last: ListPosition | null }> {
      const of = { orgId: actor.orgId, connectionId };
      const connection = await runs.findConnection(of);
      if (connection?.userId !== actor.userId) throw appError('connection_not_found');
      return runs.listSyncs(of, page);
    },
  };
}
