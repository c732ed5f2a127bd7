import type { Knex } from 'knex';
import { newestFirst, toPage } from '#src/adapters/postgres/keyset.ts';
import { firstRow, pick, rows, shape, text } from '#src/adapters/postgres/shapes.ts';
import type { ListPosition } from '#src/contracts/request-data.ts';
import { OrganizationModel } from '#src/modules/organization/organization.model.ts';
import {
  ExportModel,
  type ExportRow,
  type ExportVolume,
  ExportVolumeModel,
  type ExportWithJob,
  exportWithJob,
} from './exports.model.ts';

const listedExport = shape({ ...exportWithJob.columns, sortKey: text() });

/** Whose exports: an organization's, or those that one of its users has asked for. */
type Whose = { orgId: string; userId: string | null };

export function createExportsRepository(db: Knex) {
  const exportsOf = ({ orgId, userId }: Whose) =>
    ExportModel.table(db).where({ orgId, ...(userId !== null && { createdBy: userId }) });
  const withJobs = (orgId: string) =>
    db('exports as e')
      .leftJoin('jobs as j', 'j.id', db.raw(`'export-' || e.id`))
      .where('e.orgId', orgId)
      .select('e.*', 'j.status as jobStatus', 'j.errorCode', 'j.errorMessage', 'j.progressTotal')
      .select(db.raw('coalesce(j.progress_done, 0) as progress_done'));

  async function withVolumes<Found extends { id: string }>(exports: Found[]) {
    const ids = exports.map(({ id }) => id);
    const volumes = await ExportVolumeModel.table(db).whereIn('exportId', ids).orderBy('number');
    return exports.map((row) => ({ ...row, volumes: volumes.filter(({ exportId }) => exportId === row.id) }));
  }

  return {
    async isOneRunning(orgId: string): Promise<boolean> {
      const open = withJobs(orgId).whereNull('j.finishedAt').whereNotNull('j.id').limit(1);
      return (await firstRow(db, exportWithJob, open)) !== undefined;
    },

    async insert(row: Pick<ExportRow, 'id' | 'orgId' | 'createdBy'>, keepDays: number): Promise<void> {
      await ExportModel.table(db).insert({ ...row, expiresAt: db.raw('now() + make_interval(days => ?)', [keepDays]) });
    },

    async list(
      orgId: string,
      page: { limit: number; after: ListPosition | null },
    ): Promise<{ items: ExportWithJob[]; last: ListPosition | null }> {
      const listed = newestFirst(withJobs(orgId), { time: 'e.created_at', id: 'e.id', ...page });
      const { items, last } = toPage(await rows(db, listedExport, listed), page.limit);
      return { items: await withVolumes(items), last };
    },

    async find(orgId: string, id: string): Promise<ExportWithJob | undefined> {
      const [found] = await withVolumes(await rows(db, exportWithJob, withJobs(orgId).where('e.id', id)));
      return found;
    },

    /** Held until the end of the transaction against its deletion. */
    async hold(orgId: string, id: string): Promise<ExportRow | undefined> {
      return ExportModel.table(db).where({ orgId, id }).forKeyShare().first();
    },

    async listVolumes(orgId: string, exportId: string): Promise<ExportVolume[]> {
      return ExportVolumeModel.table(db).where({ orgId, exportId }).orderBy('number');
    },

    async findVolume(orgId: string, exportId: string, sha256: string): Promise<ExportVolume | undefined> {
      const found = ExportVolumeModel.table(db)
        .join('exports', 'exports.id', 'exportVolumes.exportId')
        .where({ 'exportVolumes.orgId': orgId, exportId, sha256 })
        .whereNotNull('completedAt')
        .whereRaw('expires_at > now()')
        .select('exportVolumes.*');
      return firstRow(db, ExportVolumeModel, found);
    },

    /** False when another one was stored under this number before. */
    async insertVolume(of: { orgId: string; exportId: string }, volume: ExportVolume): Promise<boolean> {
      const inserting = ExportVolumeModel.query(db)
        .insert({ ...of, ...volume })
        .onConflict(['exportId', 'number'])
        .ignore()
        .returning('number');
      const inserted = await rows(db, pick(ExportVolumeModel, 'number'), inserting);
      return inserted.length > 0;
    },

    /** Counts the days from now on. Done again, it leaves them. */
    async complete(orgId: string, id: string, keepDays: number): Promise<boolean> {
      const completed = await ExportModel.table(db)
        .where({ orgId, id })
        .update({
          completedAt: db.raw('coalesce(completed_at, now())'),
          expiresAt: db.raw('coalesce(completed_at, now()) + make_interval(days => ?)', [keepDays]),
        });
      return completed > 0;
    },

    /** @returns the objects that nothing refers to any more; undefined when it was gone before */
    async delete(orgId: string, id: string): Promise<{ blobKey: string }[] | undefined> {
      const held = await ExportModel.table(db).where({ orgId, id }).forUpdate().first('id');
      if (held === undefined) return undefined;
      const volumes = await ExportVolumeModel.table(db).where({ orgId, exportId: id }).select('blobKey');
      await ExportModel.table(db).where({ orgId, id }).delete();
      return volumes;
    },

    /** @returns the objects that nothing refers to any more */
    async deleteVolumes(orgId: string, exportId: string): Promise<{ blobKey: string }[]> {
      return ExportVolumeModel.table(db).where({ orgId, exportId }).delete().returning('blobKey');
    },

    /** Also one that was deleted, as long as its row is there. */
    async isOrganization(orgId: string): Promise<boolean> {
      return (await OrganizationModel.table(db).where({ id: orgId }).first('id')) !== undefined;
    },

    async listIdsOf(whose: Whose): Promise<string[]> {
      return (await exportsOf(whose).select('id')).map(({ id }) => id);
    },

    /** Neither complete nor under way: they failed or were cancelled. Asked while no export is under way. */
    async listIncomplete(orgId: string): Promise<string[]> {
      return (await ExportModel.table(db).where({ orgId }).whereNull('completedAt').select('id')).map(({ id }) => id);
    },

    /** Complete ones beyond the newest `count`, or beyond `bytes` in sum; never the newest. */
    async listBeyond(orgId: string, { count, bytes }: { count: number; bytes: number }): Promise<string[]> {
      const beyond = await rows(
        db,
        pick(ExportModel, 'id'),
        `select id from (
           select e.id, row_number() over newest as position, sum(v.bytes) over newest as bytes
           from exports e
           cross join lateral (
             select coalesce(sum(size_bytes), 0) as bytes from export_volumes where export_id = e.id
           ) v
           where e.org_id = :orgId and e.completed_at is not null
           window newest as (order by e.completed_at desc, e.id desc)
         ) kept
         where position > :count or (position > 1 and bytes > :bytes)`,
        { orgId, count, bytes },
      );
      return beyond.map(({ id }) => id);
    },

    /** Also those that nobody completes any more; a run that goes on keeps its own. */
    async listExpired(limit: number): Promise<{ id: string; orgId: string }[]> {
      const expired = db('exports as e')
        .whereRaw('e.expires_at <= now()')
        .whereNotExists(
          db('jobs as j').whereRaw(`j.id = 'export-' || e.id`).whereNull('j.finishedAt').select(db.raw('1')),
        )
        .orderBy('e.expiresAt')
        .limit(limit)
        .select('e.id', 'e.orgId');
      return rows(db, pick(ExportModel, 'id', 'orgId'), expired);
    },
  };
}
