import type { Knex } from 'knex';
import type {
  ExportReference,
  ExportStage,
  PublishExportInput,
  RecordExportEndInput,
  RecordExportFailureInput,
  WriteExportVolumeInput,
  WriteExportVolumeResult,
} from '#src/contracts/exports.ts';
import { exportWorkflowId } from '#src/contracts/workflow-ids.ts';
import { mayPerformAction } from '#src/domain/access/policy.ts';
import { accessKeysOfActor } from '#src/domain/access/visibility.ts';
import { appError } from '#src/errors.ts';
import type { AccountsService } from '#src/modules/auth/accounts.service.ts';
import type { JobsService } from '#src/modules/jobs/jobs.service.ts';
import type { OriginalFilesService } from '#src/modules/originals/originals.service.ts';
import type { ExportRow, ExportVolume } from './exports.model.ts';
import { createExportsRepository, type ExportAccessScope } from './exports.repository.ts';
import type { ExportsService } from './exports.service.ts';
import { type ExportVolumeWriter, sumOfRecordCounts } from './volume-writer.ts';

/** Maximum bytes of a stored volume: far above the usual size, because one large original is never split. */
const LIMIT_BYTES = 64 * 1024 ** 3;
const PROGRESS_INTERVAL_MS = 2_000;

const jobIdOf = ({ exportId }: ExportReference): string => exportWorkflowId(exportId);

export type ExportStepsService = ReturnType<typeof createExportStepsService>;

/**
 * The steps of the workflow `exportOrganization`. Each stored volume records where the next one begins, so a repeated
 * step finds the volume instead of writing it again. An interrupted step stores nothing.
 */
export function createExportStepsService(deps: {
  db: Knex;
  writer: ExportVolumeWriter;
  originals: Pick<OriginalFilesService, 'store' | 'settle' | 'discard'>;
  accounts: Pick<AccountsService, 'findActor'>;
  jobs: Pick<JobsService, 'advance'>;
  exports: Pick<ExportsService, 'deleteVolumes' | 'deleteOlder'>;
  keepDays: number;
}) {
  const { db, writer, originals, accounts, jobs, exports, keepDays } = deps;
  const repository = createExportsRepository(db);

  async function enter(
    of: ExportReference,
    stage: ExportStage,
    progress?: { done: number; total: number },
  ): Promise<void> {
    await jobs.advance(jobIdOf(of), {
      status: 'running',
      stage,
      ...(progress !== undefined && { progress: { ...progress, unit: 'records' } }),
    });
  }

  async function findExport({ orgId, exportId }: ExportReference): Promise<ExportRow> {
    const row = await repository.find(orgId, exportId);
    if (row === undefined) throw appError('export_not_found');
    return row;
  }

  async function scopeOf({ orgId, createdBy }: ExportRow): Promise<ExportAccessScope> {
    const actor = await accounts.findActor(db, createdBy);
    if (actor === undefined || !mayPerformAction(actor, 'organization:administer', { orgId })) {
      throw appError('forbidden', {
        detail: 'The user who requested the export is no longer an admin of the organization.',
      });
    }
    return { orgId, keys: accessKeysOfActor(actor) };
  }

  const resultOf = ({ records, nextPlace }: Pick<ExportVolume, 'records' | 'nextPlace'>): WriteExportVolumeResult => ({
    records: sumOfRecordCounts(records),
    isMore: nextPlace !== null,
  });

  async function saveVolume(
    { orgId, exportId }: ExportReference,
    file: Awaited<ReturnType<typeof originals.store>>,
    made: Pick<ExportVolume, 'number' | 'records' | 'nextPlace'>,
  ): Promise<WriteExportVolumeResult> {
    const { blobKey, sizeBytes, sha256 } = file;
    try {
      const isNew = await db.transaction(async (trx) => {
        const rows = createExportsRepository(trx);
        if ((await rows.lock(orgId, exportId)) === undefined) throw appError('export_not_found');
        const volume = { ...made, blobKey, sizeBytes, sha256 };
        if (!(await rows.insertVolume({ orgId, exportId }, volume))) return false;
        await originals.settle(trx, file);
        return true;
      });
      if (isNew) return resultOf(made);
    } catch (error) {
      await originals.discard(file);
      throw error;
    }
    await originals.discard(file);
    const stored = (await repository.listVolumes(orgId, exportId)).find(({ number }) => number === made.number);
    if (stored === undefined) throw appError('export_not_found');
    return resultOf(stored);
  }

  return {
    async count(of: ExportReference): Promise<{ total: number }> {
      await enter(of, 'count');
      const total = await writer.count(await scopeOf(await findExport(of)));
      return { total };
    },

    async writeVolume(
      { number, done, total, ...of }: WriteExportVolumeInput,
      signal: AbortSignal,
    ): Promise<WriteExportVolumeResult> {
      const row = await findExport(of);
      const volumes = await repository.listVolumes(of.orgId, of.exportId);
      const stored = volumes.find((volume) => volume.number === number);
      if (stored !== undefined) return resultOf(stored);
      const last = volumes.at(-1);
      if ((last?.number ?? 0) !== number - 1 || (last !== undefined && last.nextPlace === null)) {
        throw new Error(`export volume ${number} cannot be stored after volume ${last?.number ?? 0}`);
      }
      const showProgress = (records: number) =>
        enter(of, 'write', { done: done + records, total: Math.max(total, done + records) });
      await showProgress(0);

      let shownMs = performance.now();
      const { content, end } = writer.open({
        exportId: of.exportId,
        createdAt: row.createdAt,
        userId: row.createdBy,
        scope: await scopeOf(row),
        number,
        from: last?.nextPlace ?? null,
        previous: volumes,
        signal,
        onProgress: (records) => {
          if (performance.now() - shownMs < PROGRESS_INTERVAL_MS) return;
          shownMs = performance.now();
          // A failed progress update is ignored, because the next update reports the total again.
          showProgress(records).catch(() => undefined);
        },
      });
      const file = await originals.store({ orgId: of.orgId, content, limitBytes: LIMIT_BYTES }).finally(() => {
        content.destroy();
      });
      return saveVolume(of, file, { number, ...(await end) });
    },

    async publish({ records, ...of }: PublishExportInput): Promise<void> {
      await enter(of, 'publish', { done: records, total: records });
      if (!(await repository.complete(of.orgId, of.exportId, keepDays))) throw appError('export_not_found');
      await exports.deleteOlder(of);
    },

    async recordSuccess({ attempt, startId, ...of }: RecordExportEndInput): Promise<void> {
      await jobs.advance(jobIdOf(of), { status: 'succeeded' }, { attempt, startId });
    },

    async recordParked({ error, ...of }: RecordExportFailureInput): Promise<void> {
      await jobs.advance(jobIdOf(of), { status: 'parked', error });
    },

    async recordResumed(of: ExportReference): Promise<void> {
      await jobs.advance(jobIdOf(of), { status: 'running' });
    },

    /**
     * Records that an export failed. Its stored volumes stay until they expire, because a retry continues after them.
     */
    async recordFailure({ error, attempt, startId, ...of }: RecordExportFailureInput): Promise<void> {
      await jobs.advance(jobIdOf(of), { status: 'failed', error }, { attempt, startId });
    },

    async recordCancellation({ attempt, startId, ...of }: RecordExportEndInput): Promise<void> {
      await exports.deleteVolumes(of);
      await jobs.advance(jobIdOf(of), { status: 'cancelled' }, { attempt, startId });
    },
  };
}
