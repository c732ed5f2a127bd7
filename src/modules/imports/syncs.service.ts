import type { Knex } from 'knex';
import type { Logger } from 'pino';
import { v7 as uuidv7 } from 'uuid';
import type { QueueSyncInput, QueueSyncResult } from '#src/contracts/connectors.ts';
import { subjectInSummary } from '#src/contracts/jobs.ts';
import type { ListPosition } from '#src/contracts/request-data.ts';
import { syncWorkflowId } from '#src/contracts/workflow-ids.ts';
import type { Actor, RequestActor } from '#src/domain/access/visibility.ts';
import {
  cronMatchesSomeDate,
  isSupportedCron,
  type SyncConfig,
  smallestCronIntervalMinutes,
} from '#src/domain/documents/sync-schedule.ts';
import { AppError, appError, fieldError } from '#src/errors.ts';
import type { FoldersService } from '#src/modules/folders/folders.service.ts';
import type { JobsService } from '#src/modules/jobs/jobs.service.ts';
import type { Orchestrator, SyncScheduleSettings, SyncSchedules } from '#src/ports/orchestrator.ts';
import { createImportRunsRepository } from './import-runs.repository.ts';
import type { ImportConnection, ImportRunRow } from './imports.model.ts';
import { createConnectionSchedulesRepository } from './sync-state.repository.ts';

const CONNECTIONS_PER_SWEEP = 20;
/** The sweeper skips connections changed within this time: the request itself updates their Temporal schedule. */
const GRACE_SECONDS = 5;
const DEFAULT_INTERVAL_MINUTES = 60;
/** Minimum time between two syncs; must equal the minimum of `interval_minutes` in the API. */
const MIN_INTERVAL_MINUTES = 5;

type ConnectionKey = { orgId: string; connectionId: string };

export type SyncsService = ReturnType<typeof createSyncsService>;

/**
 * Starts syncs of connections, at most one at a time per connection, and keeps their Temporal schedules up to date.
 */
export function createSyncsService(deps: {
  db: Knex;
  schedules: SyncSchedules;
  folders: Pick<FoldersService, 'requireTarget'>;
  jobs: Pick<JobsService, 'enqueue' | 'isOpen' | 'retry' | 'dispatch' | 'openRunsOf'>;
  orchestrator: Pick<Orchestrator, 'cancel'>;
  findActor: (userId: string) => Promise<Actor | null>;
  logger: Pick<Logger, 'warn'>;
}) {
  const { db, schedules, folders, jobs, orchestrator, findActor, logger } = deps;
  const runs = createImportRunsRepository(db);
  const outdated = createConnectionSchedulesRepository(db);

  async function enqueueSync(
    trx: Knex,
    { id: connectionId, orgId, userId }: ImportConnection,
    sync: SyncConfig,
    { requestId, acceptsDeletions }: { requestId: string | null; acceptsDeletions: boolean },
  ): Promise<string> {
    const repository = createImportRunsRepository(trx);
    const jobId = syncWorkflowId(connectionId);
    const of = { orgId, connectionId, runId: uuidv7() };
    await repository.insertRun({
      id: of.runId,
      ...{ orgId, connectionId, jobId },
      kind: 'sync',
      targetFolderId: sync.target_folder_id ?? null,
      folder: sync.folder ?? '',
      deletesMissing: sync.delete_missing ?? false,
    });
    if (acceptsDeletions) await repository.updateRun(of, { acceptsDeletions });
    await jobs.enqueue(trx, {
      id: jobId,
      kind: 'sync',
      orgId,
      createdBy: userId,
      acl: [`user:${userId}`],
      connectionId,
      start: { workflow: 'syncConnection', input: of, summary: `Sync ${subjectInSummary}`, bulk: true },
      requestId,
    });
    return of.runId;
  }

  async function retryJobs(jobIds: readonly string[]): Promise<void> {
    for (const jobId of jobIds) if (await jobs.retry(db, jobId)) await jobs.dispatch(jobId);
  }

  async function applyConnection(of: ConnectionKey): Promise<void> {
    const connection = await runs.findConnection(of);
    if (connection === undefined) {
      await schedules.remove(of.connectionId);
      for (const jobId of await jobs.openRunsOf(db, of)) await orchestrator.cancel(jobId);
      await outdated.remove(of.connectionId);
      return;
    }
    const { sync } = connection.config;
    if (sync == null) await schedules.remove(of.connectionId);
    else await schedules.set(of, timesOf(sync));
    if (connection.status === 'active') await retryJobs(await outdated.listParkedJobs(of));
  }

  /** Updates a connection's Temporal schedule in one process at a time, so that the newer update comes last. */
  async function applyUnderLease(of: ConnectionKey): Promise<void> {
    for (let isApplied = false; !isApplied; ) {
      const outdatedAt = await outdated.claim(of.connectionId);
      if (outdatedAt === undefined) return;
      try {
        await applyConnection(of);
      } catch (error) {
        await outdated.release(of.connectionId, undefined);
        throw error;
      }
      isApplied = await outdated.release(of.connectionId, outdatedAt);
    }
  }

  return {
    /** Starts a sync or returns the running one. `acceptsDeletions` also confirms its mass deletion. */
    async start(actor: RequestActor, connectionId: string, acceptsDeletions: boolean): Promise<ImportRunRow> {
      const { orgId, userId, requestId } = actor;
      const jobId = syncWorkflowId(connectionId);
      const runId = await db.transaction(async (trx) => {
        const repository = createImportRunsRepository(trx);
        const connection = await repository.lockConnection({ orgId, connectionId });
        if (connection?.userId !== userId) throw appError('connection_not_found');
        const { sync } = connection.config;
        if (sync == null) throw appError('sync_not_configured');
        if (!(await jobs.isOpen(trx, jobId)))
          return enqueueSync(trx, connection, sync, { requestId, acceptsDeletions });
        const [open] = (await repository.listSyncs({ orgId, connectionId }, { limit: 1, after: null })).items;
        if (open === undefined) throw appError('job_open');
        if (acceptsDeletions) {
          await repository.updateRun({ orgId, connectionId, runId: open.id }, { acceptsDeletions });
          if (open.errorCode === 'mass_deletion') await jobs.retry(trx, jobId);
        }
        return open.id;
      });
      await jobs.dispatch(jobId);
      const run = await runs.findRun({ orgId, connectionId, runId });
      if (run === undefined) throw appError('connection_not_found');
      return run;
    },

    async queueScheduled({ orgId, connectionId }: QueueSyncInput): Promise<QueueSyncResult> {
      const jobId = syncWorkflowId(connectionId);
      const reason = await db.transaction(async (trx) => {
        const connection = await createImportRunsRepository(trx).lockConnection({ orgId, connectionId });
        if (connection === undefined) {
          await createConnectionSchedulesRepository(trx).addOrphan({ orgId, connectionId });
          return 'the connection was deleted.';
        }
        const { sync } = connection.config;
        if (sync == null || !sync.enabled) return 'the sync is disabled.';
        if ((await findActor(connection.userId)) === null) return "the owner's account is not active.";
        if (await jobs.isOpen(trx, jobId)) return 'the previous sync is still open.';
        await enqueueSync(trx, connection, sync, { requestId: null, acceptsDeletions: false });
        return null;
      });
      if (reason !== null) return { jobId: null, reason };
      await jobs.dispatch(jobId);
      return { jobId, reason: 'the schedule fired.' };
    },

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

    async checkSettings(actor: Actor, sync: SyncConfig): Promise<void> {
      if (sync.cron !== undefined && !isSupportedCron(sync.cron)) {
        throw fieldError('config.sync.cron', 'must have five fields: minute, hour, day, month and weekday');
      }
      if (sync.cron !== undefined && !cronMatchesSomeDate(sync.cron)) {
        throw fieldError('config.sync.cron', 'names days that none of its months has');
      }
      if (sync.cron !== undefined && smallestCronIntervalMinutes(sync.cron) < MIN_INTERVAL_MINUTES) {
        throw fieldError('config.sync.cron', `must leave ${MIN_INTERVAL_MINUTES} minutes between two times`);
      }
      if (sync.target_folder_id == null) return;
      await folders.requireTarget(db, actor, sync.target_folder_id).catch((error: unknown) => {
        if (error instanceof AppError) throw fieldError('config.sync.target_folder_id', error.message, error.code);
        throw error;
      });
    },

    /** Updates a connection's schedule; call it after the commit. Never throws: the sweeper retries. */
    async applyChange(of: ConnectionKey): Promise<void> {
      await applyUnderLease(of).catch((error: unknown) => {
        logger.warn(
          { err: error, connectionId: of.connectionId },
          'sync schedule update failed; the sweeper retries it',
        );
      });
    },

    /** Updates all outdated Temporal schedules for the sweeper; throws the first error at the end. */
    async applyOutdated(): Promise<void> {
      const failures: unknown[] = [];
      for (const of of await outdated.listOutdated(GRACE_SECONDS, CONNECTIONS_PER_SWEEP)) {
        await applyUnderLease(of).catch((error: unknown) => failures.push(error));
      }
      if (failures.length > 0) throw failures[0];
    },

    /**
     * Marks all schedules as outdated for the sweeper, so that schedules which Temporal has lost are created again.
     */
    renewSchedules: (): Promise<void> => outdated.markAllOutdated(),
  };
}

function timesOf({
  enabled,
  cron,
  interval_minutes: everyMinutes = DEFAULT_INTERVAL_MINUTES,
}: SyncConfig): SyncScheduleSettings {
  return { isOn: enabled, ...(cron === undefined ? { everyMinutes } : { cron }) };
}
