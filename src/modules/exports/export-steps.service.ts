import type { Knex } from 'knex';
import type {
  ExportKey,
  ExportStage,
  PublishExportInput,
  RecordExportEndInput,
  RecordExportFailureInput,
  WriteVolumeInput,
  WriteVolumeResult,
} from '#src/contracts/exports.ts';
import { exportWorkflowId } from '#src/contracts/workflow-ids.ts';
import { can } from '#src/domain/access/policy.ts';
import { keysOf } from '#src/domain/access/visibility.ts';
import { appError } from '#src/errors.ts';
import type { AccountsService } from '#src/modules/auth/accounts.service.ts';
import type { JobsService } from '#src/modules/jobs/jobs.service.ts';
import type { OriginalsService } from '#src/modules/originals/originals.service.ts';
import type { Reading } from './exported-records.repository.ts';
import type { ExportRow, ExportVolume } from './exports.model.ts';
import { createExportsRepository } from './exports.repository.ts';
import type { ExportsService } from './exports.service.ts';
import { totalOf } from './manifest.ts';
import type { VolumeWriter } from './volume-writer.ts';

/** Larger than any volume: an original is never cut. */
const LIMIT_BYTES = 64 * 1024 ** 3;
const TELL_AGAIN_MS = 2_000;

const idOf = ({ exportId }: ExportKey): string => exportWorkflowId(exportId);

export type ExportStepsService = ReturnType<typeof createExportStepsService>;

/**
 * The work of `exportOrganization`, one method a step. A volume is stored once, with the place where the next one begins:
 * done again, a step finds it; cut off, it leaves nothing.
 */
export function createExportStepsService(deps: {
  db: Knex;
  writer: VolumeWriter;
  originals: Pick<OriginalsService, 'store' | 'settle' | 'discard'>;
  accounts: Pick<AccountsService, 'findActor'>;
  jobs: Pick<JobsService, 'advance'>;
  exports: Pick<ExportsService, 'deleteVolumes' | 'deleteOlder'>;
  keepDays: number;
}) {
  const { db, writer, originals, accounts, jobs, exports, keepDays } = deps;
  const repository = createExportsRepository(db);

  async function enter(of: ExportKey, stage: ExportStage, progress?: { done: number; total: number }): Promise<void> {
    await jobs.advance(idOf(of), {
      status: 'running',
      stage,
      ...(progress !== undefined && { progress: { ...progress, unit: 'records' } }),
    });
  }

  async function findExport({ orgId, exportId }: ExportKey): Promise<ExportRow> {
    const row = await repository.find(orgId, exportId);
    if (row === undefined) throw appError('export_not_found');
    return row;
  }

  /** What its admin may read now. Throws `forbidden` once he is none any more. */
  async function readingOf({ orgId, createdBy }: ExportRow): Promise<Reading> {
    const actor = await accounts.findActor(db, createdBy);
    if (actor === undefined || !can(actor, 'organization:administer', { orgId })) {
      throw appError('forbidden', { detail: 'Who has asked for the export is no admin of the organization any more.' });
    }
    return { orgId, keys: keysOf(actor) };
  }

  const resultOf = ({ records, nextPlace }: Pick<ExportVolume, 'records' | 'nextPlace'>): WriteVolumeResult => ({
    records: totalOf(records),
    isMore: nextPlace !== null,
  });

  /** @returns the one that was stored under this number before, where there is one */
  async function keep(
    { orgId, exportId }: ExportKey,
    file: Awaited<ReturnType<typeof originals.store>>,
    made: Pick<ExportVolume, 'number' | 'records' | 'nextPlace'>,
  ): Promise<WriteVolumeResult> {
    const { blobKey, sizeBytes, sha256 } = file;
    try {
      const isNew = await db.transaction(async (trx) => {
        const rows = createExportsRepository(trx);
        if ((await rows.hold(orgId, exportId)) === undefined) throw appError('export_not_found');
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
    const before = (await repository.listVolumes(orgId, exportId)).find(({ number }) => number === made.number);
    if (before === undefined) throw appError('export_not_found');
    return resultOf(before);
  }

  return {
    async count(of: ExportKey): Promise<{ total: number }> {
      await enter(of, 'count');
      const total = await writer.count(await readingOf(await findExport(of)));
      return { total };
    },

    /** Stores the next volume. Throws `export_not_found` once the export is deleted. */
    async writeVolume(
      { number, done, total, ...of }: WriteVolumeInput,
      signal: AbortSignal,
    ): Promise<WriteVolumeResult> {
      const row = await findExport(of);
      const volumes = await repository.listVolumes(of.orgId, of.exportId);
      const stored = volumes.find((volume) => volume.number === number);
      if (stored !== undefined) return resultOf(stored);
      const last = volumes.at(-1);
      if ((last?.number ?? 0) !== number - 1 || (last !== undefined && last.nextPlace === null)) {
        throw new Error(`volume ${number} does not follow volume ${last?.number ?? 0}`);
      }
      const tell = (records: number) =>
        enter(of, 'write', { done: done + records, total: Math.max(total, done + records) });
      await tell(0);

      let toldMs = performance.now();
      const { content, end } = writer.open({
        exportId: of.exportId,
        createdAt: row.createdAt,
        userId: row.createdBy,
        reading: await readingOf(row),
        number,
        from: last?.nextPlace ?? null,
        previous: volumes,
        signal,
        onProgress: (records) => {
          if (performance.now() - toldMs < TELL_AGAIN_MS) return;
          toldMs = performance.now();
          // The next one says it again.
          tell(records).catch(() => undefined);
        },
      });
      const file = await originals.store({ orgId: of.orgId, content, limitBytes: LIMIT_BYTES }).finally(() => {
        content.destroy();
      });
      return keep(of, file, { number, ...(await end) });
    },

    /** From now on it can be downloaded, and older ones beyond the limits are deleted. */
    async publish({ records, ...of }: PublishExportInput): Promise<void> {
      await enter(of, 'publish', { done: records, total: records });
      if (!(await repository.complete(of.orgId, of.exportId, keepDays))) throw appError('export_not_found');
      await exports.deleteOlder(of);
    },

    async recordSuccess({ attempt, startId, ...of }: RecordExportEndInput): Promise<void> {
      await jobs.advance(idOf(of), { status: 'succeeded' }, { attempt, startId });
    },

    async recordParked({ error, ...of }: RecordExportFailureInput): Promise<void> {
      await jobs.advance(idOf(of), { status: 'parked', error });
    },

    async recordResumed(of: ExportKey): Promise<void> {
      await jobs.advance(idOf(of), { status: 'running' });
    },

    /** What is stored stays until it expires: another attempt goes on behind it. */
    async recordFailure({ error, attempt, startId, ...of }: RecordExportFailureInput): Promise<void> {
      await jobs.advance(idOf(of), { status: 'failed', error }, { attempt, startId });
    },

    /** Nobody wants what is stored. */
    async recordCancellation({ attempt, startId, ...of }: RecordExportEndInput): Promise<void> {
      await exports.deleteVolumes(of);
      await jobs.advance(idOf(of), { status: 'cancelled' }, { attempt, startId });
    },
  };
}
