import { newestFirst, toPage } from '#src/adapters/postgres/keyset.ts';
import type { JobStatus } from '#src/contracts/jobs.ts';
import type { ListPosition } from '#src/contracts/list-position.ts';
import type { Db } from '#src/ports/database.ts';
import { type ExportRow, type ExportVolume, ExportVolumeModel } from './exports.model.ts';

export type ExportWithJob = ExportRow & {
  /** Null where there is no job of it any more. */
  jobStatus: JobStatus | null;
  errorCode: string | null;
  errorMessage: string | null;
  progressDone: number;
  progressTotal: number | null;
  volumes: ExportVolume[];
};

/** Whose exports: an organization's, or those that one of its users has asked for. */
type Whose = { orgId: string; userId: string | null };

export function createExportsRepository(db: Db) {
  const exportsOf = ({ orgId, userId }: Whose) =>
    db<ExportRow>('exports').where({ orgId, ...(userId !== null && { createdBy: userId }) });
  const withJobs = (orgId: string) =>
    db('exports as e')
      .leftJoin('jobs as j', 'j.id', db.raw(`'export-' || e.id`))
      .where('e.orgId', orgId)
      .select('e.*', 'j.status as jobStatus', 'j.errorCode', 'j.errorMessage', 'j.progressTotal')
      .select(db.raw('coalesce(j.progress_done, 0) as progress_done'));

  async function withVolumes<Row extends { id: string }>(
    rows: Row[],
  ): Promise<(Row & Pick<ExportWithJob, 'volumes'>)[]> {
    const ids = rows.map(({ id }) => id);
    const volumes: (ExportVolume & { exportId: string })[] = await db('exportVolumes')
      .whereIn('exportId', ids)
      .orderBy('number')
      .select('exportId', 'number', 'blobKey', 'sizeBytes', 'sha256', 'records', 'nextPlace');
    return rows.map((row) => ({ ...row, volumes: volumes.filter(({ exportId }) => exportId === row.id) }));
  }

  return {
    async isOneRunning(orgId: string): Promise<boolean> {
      const open = await withJobs(orgId).whereNull('j.finishedAt').whereNotNull('j.id').first();
      return open !== undefined;
    },

    async insert(row: Pick<ExportRow, 'id' | 'orgId' | 'createdBy'>, keepDays: number): Promise<void> {
      await db('exports').insert({ ...row, expiresAt: db.raw('now() + make_interval(days => ?)', [keepDays]) });
    },

    async list(
      orgId: string,
      page: { limit: number; after: ListPosition | null },
    ): Promise<{ items: ExportWithJob[]; last: ListPosition | null }> {
      const rows = await newestFirst(withJobs(orgId), { time: 'e.created_at', id: 'e.id', ...page });
      const { items, last } = toPage(rows as (ExportWithJob & ListPosition)[], page.limit);
      return { items: await withVolumes(items), last };
    },

    async find(orgId: string, id: string): Promise<ExportWithJob | undefined> {
      const [found] = await withVolumes<ExportWithJob>(await withJobs(orgId).where('e.id', id));
      return found;
    },

    /** Held until the end of the transaction against its deletion. */
    async hold(orgId: string, id: string): Promise<ExportRow | undefined> {
      return db<ExportRow>('exports').where({ orgId, id }).forKeyShare().first();
    },

    async listVolumes(orgId: string, exportId: string): Promise<ExportVolume[]> {
      return db('exportVolumes').where({ orgId, exportId }).orderBy('number');
    },

    async findVolume(orgId: string, exportId: string, sha256: string): Promise<ExportVolume | undefined> {
      return db('exportVolumes')
        .join('exports', 'exports.id', 'exportVolumes.exportId')
        .where({ 'exportVolumes.orgId': orgId, exportId, sha256 })
        .whereNotNull('completedAt')
        .whereRaw('expires_at > now()')
        .first('exportVolumes.*');
    },

    /** False when another one was stored under this number before. */
    async insertVolume(of: { orgId: string; exportId: string }, volume: ExportVolume): Promise<boolean> {
      const { records, nextPlace, ...columns } = volume;
      const inserted = await db('exportVolumes')
        .insert({
          ...of,
          ...columns,
          records: JSON.stringify(records),
          nextPlace: nextPlace === null ? null : JSON.stringify(nextPlace),
        })
        .onConflict(['exportId', 'number'])
        .ignore()
        .returning('number');
      return inserted.length > 0;
    },

    /** Counts the days from now on. Done again, it leaves them. */
    async complete(orgId: string, id: string, keepDays: number): Promise<boolean> {
      const completed = await db<ExportRow>('exports')
        .where({ orgId, id })
        .update({
          completedAt: db.raw('coalesce(completed_at, now())'),
          expiresAt: db.raw('coalesce(completed_at, now()) + make_interval(days => ?)', [keepDays]),
        });
      return completed > 0;
    },

    /** @returns the objects that nothing refers to any more; undefined when it was gone before */
    async delete(orgId: string, id: string): Promise<{ blobKey: string }[] | undefined> {
      const held = await db('exports').where({ orgId, id }).forUpdate().first('id');
      if (held === undefined) return undefined;
      const volumes = await db('exportVolumes').where({ orgId, exportId: id }).select('blobKey');
      await db('exports').where({ orgId, id }).delete();
      return volumes;
    },

    /** @returns the objects that nothing refers to any more */
    async deleteVolumes(orgId: string, exportId: string): Promise<{ blobKey: string }[]> {
      return ExportVolumeModel.table(db).where({ orgId, exportId }).delete().returning('blobKey');
    },

    async listIdsOf(whose: Whose): Promise<string[]> {
      return exportsOf(whose).pluck('id');
    },

    /** Also those that nobody completes any more; a run that goes on keeps its own. */
    async listExpired(limit: number): Promise<{ id: string; orgId: string }[]> {
      return db('exports as e')
        .whereRaw('e.expires_at <= now()')
        .whereNotExists(
          db('jobs as j').whereRaw(`j.id = 'export-' || e.id`).whereNull('j.finishedAt').select(db.raw('1')),
        )
        .orderBy('e.expiresAt')
        .limit(limit)
        .select('e.id', 'e.orgId');
    },
  };
}
