import type { Knex } from 'knex';
import { orderNewestFirst, toListPage } from '#src/adapters/postgres/keyset.ts';
import {
  bigintColumn,
  defineRowShape,
  pickColumns,
  queryFirstRow,
  queryOneRow,
  queryRows,
  type SqlRow,
  textArrayColumn,
  textColumn,
  uuidColumn,
} from '#src/adapters/postgres/shapes.ts';
import type { ListPosition } from '#src/contracts/request-data.ts';
import { OrganizationModel } from '#src/modules/organization/organization.model.ts';
import type { ExportAccessKeys, ExportedRecordKind } from './exported-records.ts';
import {
  ExportModel,
  type ExportRow,
  type ExportVolume,
  ExportVolumeModel,
  type ExportWithJob,
  exportWithJobRowShape,
} from './exports.model.ts';

const listedExport = defineRowShape({ ...exportWithJobRowShape.columns, sortKey: textColumn() });

type ExportOwner = { orgId: string; userId: string | null };

export function createExportsRepository(db: Knex) {
  const exportsOf = ({ orgId, userId }: ExportOwner) =>
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
    async hasRunning(orgId: string): Promise<boolean> {
      const open = withJobs(orgId).whereNull('j.finishedAt').whereNotNull('j.id').limit(1);
      return (await queryFirstRow(db, exportWithJobRowShape, open)) !== undefined;
    },

    async insert(row: Pick<ExportRow, 'id' | 'orgId' | 'createdBy'>, keepDays: number): Promise<void> {
      await ExportModel.table(db).insert({ ...row, expiresAt: db.raw('now() + make_interval(days => ?)', [keepDays]) });
    },

    async list(
      orgId: string,
      page: { limit: number; after: ListPosition | null },
    ): Promise<{ items: ExportWithJob[]; last: ListPosition | null }> {
      const listed = orderNewestFirst(withJobs(orgId), { time: 'e.created_at', id: 'e.id', ...page });
      const { items, last } = toListPage(await queryRows(db, listedExport, listed), page.limit);
      return { items: await withVolumes(items), last };
    },

    async find(orgId: string, id: string): Promise<ExportWithJob | undefined> {
      const [found] = await withVolumes(await queryRows(db, exportWithJobRowShape, withJobs(orgId).where('e.id', id)));
      return found;
    },

    async lock(orgId: string, id: string): Promise<ExportRow | undefined> {
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
      return queryFirstRow(db, ExportVolumeModel, found);
    },

    async insertVolume(of: { orgId: string; exportId: string }, volume: ExportVolume): Promise<boolean> {
      const inserting = ExportVolumeModel.query(db)
        .insert({ ...of, ...volume })
        .onConflict(['exportId', 'number'])
        .ignore()
        .returning('number');
      const inserted = await queryRows(db, pickColumns(ExportVolumeModel, 'number'), inserting);
      return inserted.length > 0;
    },

    async complete(orgId: string, id: string, keepDays: number): Promise<boolean> {
      const completed = await ExportModel.table(db)
        .where({ orgId, id })
        .update({
          completedAt: db.raw('coalesce(completed_at, now())'),
          expiresAt: db.raw('coalesce(completed_at, now()) + make_interval(days => ?)', [keepDays]),
        });
      return completed > 0;
    },

    /** Deletes an export. Returns its blobs, which the caller must release; undefined if it does not exist. */
    async delete(orgId: string, id: string): Promise<{ blobKey: string }[] | undefined> {
      const held = await ExportModel.table(db).where({ orgId, id }).forUpdate().first('id');
      if (held === undefined) return undefined;
      const volumes = await ExportVolumeModel.table(db).where({ orgId, exportId: id }).select('blobKey');
      await ExportModel.table(db).where({ orgId, id }).delete();
      return volumes;
    },

    async deleteVolumes(orgId: string, exportId: string): Promise<{ blobKey: string }[]> {
      return ExportVolumeModel.table(db).where({ orgId, exportId }).delete().returning('blobKey');
    },

    async hasOrganization(orgId: string): Promise<boolean> {
      return (await OrganizationModel.table(db).where({ id: orgId }).first('id')) !== undefined;
    },

    async listIdsOf(owner: ExportOwner): Promise<string[]> {
      return (await exportsOf(owner).select('id')).map(({ id }) => id);
    },

    async listIncomplete(orgId: string): Promise<string[]> {
      return (await ExportModel.table(db).where({ orgId }).whereNull('completedAt').select('id')).map(({ id }) => id);
    },

    /**
     * Lists complete exports that exceed the limits: all beyond the newest `count`, and all beyond the newest that fit
     * into `bytes` in total. Never lists the newest one.
     */
    async listBeyond(orgId: string, { count, bytes }: { count: number; bytes: number }): Promise<string[]> {
      const beyond = await queryRows(
        db,
        pickColumns(ExportModel, 'id'),
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

    async listExpired(limit: number): Promise<{ id: string; orgId: string }[]> {
      const expired = db('exports as e')
        .whereRaw('e.expires_at <= now()')
        .whereNotExists(
          db('jobs as j').whereRaw(`j.id = 'export-' || e.id`).whereNull('j.finishedAt').select(db.raw('1')),
        )
        .orderBy('e.expiresAt')
        .limit(limit)
        .select('e.id', 'e.orgId');
      return queryRows(db, pickColumns(ExportModel, 'id', 'orgId'), expired);
    },
  };
}

const recordLine = defineRowShape({ line: textColumn(), position: textArrayColumn() });
export type ExportedRecordLine = SqlRow<typeof recordLine>;

export type ExportAccessScope = { orgId: string; keys: ExportAccessKeys };

const documentFiles = defineRowShape({
  blobKey: textColumn(),
  sizeBytes: bigintColumn(),
  fileName: textColumn(),
  conversionId: uuidColumn().nullable(),
});
type ExportedDocumentFiles = SqlRow<typeof documentFiles>;

const rowCount = defineRowShape({ count: bigintColumn() });
const textPiece = defineRowShape({ piece: textColumn() });

const TEXT_PIECE_CHARS = 1_000_000;

export function createExportedRecordsRepository(db: Knex) {
  function conditionOf({ where, acl, holder }: ExportedRecordKind): string {
    const conditions = [
      't.org_id = :orgId',
      ...(where === undefined ? [] : [where]),
      ...(acl === undefined ? [] : [`(:keys::text[] is null or ${acl} && :keys::text[])`]),
      ...(holder === undefined ? [] : [`(:keys::text[] is null or 'user:' || ${holder} = any (:keys::text[]))`]),
    ];
    return conditions.join(' and ');
  }
  const valuesOf = ({ orgId, keys }: ExportAccessScope) => ({ orgId, keys: keys === null ? null : [...keys] });

  return {
    async count(kind: ExportedRecordKind, scope: ExportAccessScope): Promise<number> {
      const { count } = await queryOneRow(
        db,
        rowCount,
        `select count(*) from ${kind.from} where ${conditionOf(kind)}`,
        valuesOf(scope),
      );
      return count;
    },

    async list(
      kind: ExportedRecordKind,
      scope: ExportAccessScope,
      { after, limit }: { after: readonly string[] | null; limit: number },
    ): Promise<ExportedRecordLine[]> {
      const columns = kind.keys.map(({ column }) => column).join(', ');
      const position = kind.keys.map(({ column }) => `${column}::text`).join(', ');
      const bounds = kind.keys.map(({ type }, index) => `(:after::text[])[${index + 1}]::${type}`).join(', ');
      const condition = after === null ? '' : `and (${columns}) > (${bounds})`;
      return queryRows(
        db,
        recordLine,
        `select row_to_json(r)::text as line, array[${position}] as position
         from ${kind.from} cross join lateral (select ${kind.fields}) r
         where ${conditionOf(kind)} ${condition}
         order by ${columns} limit :limit`,
        { ...valuesOf(scope), limit, ...(after !== null && { after: [...after] }) },
      );
    },

    async findFiles(orgId: string, documentId: string): Promise<ExportedDocumentFiles | undefined> {
      return queryFirstRow(
        db,
        documentFiles,
        `select d.blob_key, d.size_bytes, d.file_name, g.conversion_id
         from documents d
         left join document_generations g on g.document_id = d.id and g.generation = d.active_generation
         where d.org_id = :orgId and d.id = :documentId and d.deleted_at is null`,
        { orgId, documentId },
      );
    },

    /** Yields the text of a document in pieces, so that the whole text is never in memory. */
    async *readText(orgId: string, conversionId: string): AsyncGenerator<string> {
      for (let from = 1; ; from += TEXT_PIECE_CHARS) {
        const found = await queryFirstRow(
          db,
          textPiece,
          'select substr(body, :from, :length) as piece from conversions where org_id = :orgId and id = :conversionId',
          { orgId, conversionId, from, length: TEXT_PIECE_CHARS },
        );
        const piece = found?.piece ?? '';
        if (piece.length > 0) yield piece;
        if (piece.length < TEXT_PIECE_CHARS) return;
      }
    },
  };
}
