import type { Knex } from 'knex';
import type { Logger } from 'pino';
import type { Actor } from '#src/domain/access/visibility.ts';
import type { SyncConfig } from '#src/domain/documents/sync-schedule.ts';
import { cronHasDays, cronMinutesApart, isCron } from '#src/domain/documents/sync-schedule.ts';
import { AppError, fieldError } from '#src/errors.ts';
import type { FoldersService } from '#src/modules/folders/folders.service.ts';
import type { JobsService } from '#src/modules/jobs/jobs.service.ts';
import type { Orchestrator, SyncSchedules, SyncTimes } from '#src/ports/orchestrator.ts';
import { createConnectionSchedulesRepository } from './connection-schedules.repository.ts';
import { createImportRunsRepository } from './import-runs.repository.ts';

const CONNECTIONS_AT_ONCE = 20;
/** For the request that has changed a connection to carry it out by itself. */
const GRACE_SECONDS = 5;
const EVERY_MINUTES = 60;
/** As of `interval_minutes`. */
const LEAST_MINUTES = 5;

/**
 * What follows from the state of a connection: its schedule is as its settings say, runs that waited for its consent go
 * on, and those of one that is gone stop. The database notes each change of a connection, whoever makes it, so that what
 * could not be carried out at once is by the sweeper.
 */
export function createConnectionSyncsService(deps: {
  db: Knex;
  schedules: SyncSchedules;
  folders: Pick<FoldersService, 'requireTarget'>;
  jobs: Pick<JobsService, 'retry' | 'dispatch' | 'openRunsOf'>;
  orchestrator: Pick<Orchestrator, 'cancel'>;
  logger: Pick<Logger, 'warn'>;
}) {
  const { db, schedules, folders, jobs, orchestrator, logger } = deps;
  const changed = createConnectionSchedulesRepository(db);

  async function goOn(jobIds: readonly string[]): Promise<void> {
    for (const jobId of jobIds) if (await jobs.retry(db, jobId)) await jobs.dispatch(jobId);
  }

  async function bringInLine(of: { orgId: string; connectionId: string }): Promise<void> {
    const connection = await createImportRunsRepository(db).findConnection(of);
    if (connection === undefined) {
      await schedules.remove(of.connectionId);
      for (const jobId of await jobs.openRunsOf(db, of)) await orchestrator.cancel(jobId);
      await changed.forget(of.connectionId);
      return;
    }
    const { sync } = connection.config;
    if (sync == null) await schedules.remove(of.connectionId);
    else await schedules.set(of, timesOf(sync));
    if (connection.status === 'active') await goOn(await changed.listParked(of));
  }

  /** One at a time for a connection: two side by side could leave what the older of two changes says. */
  async function carryOut(of: { orgId: string; connectionId: string }): Promise<void> {
    for (let isSettled = false; !isSettled; ) {
      const outdatedAt = await changed.take(of.connectionId);
      if (outdatedAt === undefined) return;
      try {
        await bringInLine(of);
      } catch (error) {
        await changed.giveBack(of.connectionId, undefined);
        throw error;
      }
      isSettled = await changed.giveBack(of.connectionId, outdatedAt);
    }
  }

  return {
    /** Throws `validation_failed` with the field of `config.sync` that cannot be carried out. */
    async check(actor: Actor, sync: SyncConfig): Promise<void> {
      if (sync.cron !== undefined && !isCron(sync.cron)) {
        throw fieldError('config.sync.cron', 'must have five fields: minute, hour, day, month and weekday');
      }
      if (sync.cron !== undefined && !cronHasDays(sync.cron)) {
        throw fieldError('config.sync.cron', 'names days that none of its months has');
      }
      if (sync.cron !== undefined && cronMinutesApart(sync.cron) < LEAST_MINUTES) {
        throw fieldError('config.sync.cron', `must leave ${LEAST_MINUTES} minutes between two times`);
      }
      if (sync.target_folder_id == null) return;
      await folders.requireTarget(db, actor, sync.target_folder_id).catch((error: unknown) => {
        if (error instanceof AppError) throw fieldError('config.sync.target_folder_id', error.message, error.code);
        throw error;
      });
    },

    /** To be called after the commit of a change. Never throws: what does not succeed now is done by the sweeper. */
    async apply(of: { orgId: string; connectionId: string }): Promise<void> {
      await carryOut(of).catch((error: unknown) => {
        logger.warn({ err: error, connectionId: of.connectionId }, 'a schedule is brought in line later');
      });
    },

    /** A step of the sweeper. Throws the first failure, after those beside it had their turn. */
    async applyOutdated(): Promise<void> {
      const failures: unknown[] = [];
      for (const of of await changed.listOutdated(GRACE_SECONDS, CONNECTIONS_AT_ONCE)) {
        await carryOut(of).catch((error: unknown) => failures.push(error));
      }
      if (failures.length > 0) throw failures[0];
    },

    /** A step of the sweeper: an engine that has lost its data gets all schedules again. */
    renewAll: (): Promise<void> => changed.outdateAll(),
  };
}

function timesOf({ enabled, cron, interval_minutes: everyMinutes = EVERY_MINUTES }: SyncConfig): SyncTimes {
  return { isOn: enabled, ...(cron === undefined ? { everyMinutes } : { cron }) };
}
