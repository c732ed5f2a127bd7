import type { Knex } from 'knex';
import { orderNewestFirst, toListPage } from '#src/adapters/postgres/keyset.ts';
import { whereReadableByActor } from '#src/adapters/postgres/readable.ts';
import {
  defineRowShape,
  integerColumn,
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
import type { Actor } from '#src/domain/access/visibility.ts';
import { FolderLinkModel } from '#src/modules/documents/documents.model.ts';
import {
  type ChangedJob,
  changedJobRowShape,
  type JobChangePosition,
  type JobFilters,
  JobModel,
  type JobTotals,
  jobTotalsRowShape,
  type NamedJob,
  namedJobRowShape,
  type WatchedJob,
  watchedJobColumns,
  watchedJobRowShape,
} from './jobs.model.ts';

const listedJob = defineRowShape({ ...namedJobRowShape.columns, sortKey: textColumn() });

/** A job with owner and access keys of its document or chat; null if it has no target or that is deleted. */
const jobWithTarget = defineRowShape({
  ...JobModel.columns,
  documentOwnerId: uuidColumn().nullable(),
  documentAcl: textArrayColumn().nullable(),
  newestGeneration: integerColumn().nullable(),
  chatOwnerId: uuidColumn().nullable(),
});
export type JobWithDocumentOrChat = SqlRow<typeof jobWithTarget>;

function readableJobs(db: Knex, actor: Actor, { folderId, ...columns }: JobFilters) {
  const given = Object.entries(columns).flatMap(([name, value]) =>
    value === undefined ? [] : [[`jobs.${name}`, value]],
  );
  const query = whereReadableByActor(JobModel.table(db), actor, 'jobs').where(Object.fromEntries(given));
  if (folderId !== undefined) {
    const links = FolderLinkModel.table(db)
      .join('folders', 'folders.id', 'folderLinks.folderId')
      .where({ 'folderLinks.orgId': actor.orgId, folderId });
    query.whereIn('jobs.documentId', whereReadableByActor(links, actor, 'folders').select('folderLinks.documentId'));
  }
  return query;
}

const watchedColumns = Object.keys(watchedJobColumns).map((column) => `jobs.${column}`);
const microseconds = (time: string) => `(extract(epoch from ${time}) * 1000000)::bigint`;

/** Joins are by primary key, so that each row costs four index lookups. */
function joinNames<Query extends Knex.QueryBuilder>(query: Query): Query {
  query
    .leftJoin('documents as d', (join) => join.on('d.id', 'jobs.documentId').onNull('d.deletedAt'))
    .leftJoin('chats as c', 'c.id', 'jobs.chatId')
    .leftJoin('agents as a', 'a.id', 'jobs.agentId')
    .leftJoin('connections as k', 'k.id', 'jobs.connectionId')
    .select({
      documentName: 'd.name',
      chatTitle: 'c.title',
      agentName: 'a.agentName',
      connectionName: 'k.displayName',
    });
  return query;
}

/** Reads of jobs for clients. `createJobsRepository` has the writes, and the reads of the sweeper. */
export function createJobReadsRepository(db: Knex) {
  const withTargets = (actor: Actor, filters: JobFilters) =>
    readableJobs(db, actor, filters)
      .leftJoin('documents as d', (join) => join.on('d.id', 'jobs.documentId').onNull('d.deletedAt'))
      .leftJoin('chats as c', 'c.id', 'jobs.chatId')
      .select([
        'jobs.*',
        'd.createdBy as documentOwnerId',
        'd.acl as documentAcl',
        'd.generation as newestGeneration',
        'c.createdBy as chatOwnerId',
      ]);

  const changedAfter = (query: Knex.QueryBuilder, { changedUs, id }: JobChangePosition, limit: number) =>
    query
      .whereRaw(`(jobs.updated_at, jobs.id) > ('epoch'::timestamptz + ? * interval '1 microsecond', ?)`, [
        changedUs,
        id,
      ])
      .orderBy(['jobs.updatedAt', 'jobs.id'])
      .limit(limit)
      .select(...watchedColumns, db.raw(`${microseconds('jobs.updated_at')} as changed_us`));

  return {
    async findReadable(actor: Actor, id: string): Promise<NamedJob | undefined> {
      const found = whereReadableByActor(joinNames(JobModel.table(db)), actor, 'jobs').where('jobs.id', id);
      return queryFirstRow(db, namedJobRowShape, found.select('jobs.*'));
    },

    async findWatched(ids: readonly string[]): Promise<WatchedJob[]> {
      const query = joinNames(JobModel.table(db)).whereRaw('jobs.id = any(?)', [[...ids]]);
      return queryRows(db, watchedJobRowShape, query.select(watchedColumns));
    },

    /** Lists jobs of organizations after a position in the order of their last changes, without access check. */
    async listChanged(orgIds: readonly string[], after: JobChangePosition, limit: number): Promise<ChangedJob[]> {
      const query = joinNames(JobModel.table(db)).whereRaw('jobs.org_id = any(?::uuid[])', [[...orgIds]]);
      return queryRows(db, changedJobRowShape, changedAfter(query, after, limit));
    },

    async listReadableChanged(actor: Actor, after: JobChangePosition, limit: number): Promise<ChangedJob[]> {
      const query = whereReadableByActor(joinNames(JobModel.table(db)), actor, 'jobs');
      return queryRows(db, changedJobRowShape, changedAfter(query, after, limit));
    },

    async listReadableOpen(actor: Actor, limit: number): Promise<ChangedJob[]> {
      const open = whereReadableByActor(joinNames(JobModel.table(db)), actor, 'jobs')
        .whereIn('jobs.status', ['queued', 'running', 'parked'])
        .orderBy('jobs.createdAt', 'desc')
        .limit(limit)
        .select(...watchedColumns, db.raw(`${microseconds('jobs.updated_at')} as changed_us`));
      return queryRows(db, changedJobRowShape, open);
    },

    /** The time of the database, as in `changedUs`. */
    async clock(): Promise<number> {
      const now = `select ${microseconds('clock_timestamp()')} as changed_us`;
      return (await queryOneRow(db, pickColumns(changedJobRowShape, 'changedUs'), now)).changedUs;
    },

    async listReadable(
      actor: Actor,
      filters: JobFilters,
      page: { limit: number; after: ListPosition | null },
    ): Promise<{ items: NamedJob[]; last: ListPosition | null }> {
      const query = joinNames(readableJobs(db, actor, filters)).select('jobs.*');
      const listed = orderNewestFirst(query, { ...page, time: 'jobs.createdAt', id: 'jobs.id' });
      return toListPage(await queryRows(db, listedJob, listed), page.limit);
    },

    /** Counts jobs by status and progress unit, without ingestions that a newer one has replaced. */
    async countByStatus(actor: Actor, filters: JobFilters): Promise<JobTotals[]> {
      const groups = readableJobs(db, actor, filters)
        .whereRaw(
          `not exists (
             select from documents d
             join document_generations newest on newest.document_id = d.id and newest.generation = d.generation
             where d.id = jobs.document_id and d.generation > 1
               and jobs.kind = 'ingest' and jobs.id <> newest.job_id
           )`,
        )
        .groupBy('jobs.status', 'jobs.progressUnit')
        .select(
          'jobs.status',
          'jobs.progressUnit as unit',
          db.raw('count(*) as jobs'),
          db.raw('sum(jobs.progress_done) as done'),
          db.raw('coalesce(sum(jobs.progress_total), 0) as total'),
          db.raw('count(*) filter (where jobs.progress_total is null and jobs.finished_at is null) as unknown'),
        );
      return queryRows(db, jobTotalsRowShape, groups);
    },

    async findWithTarget(actor: Actor, id: string): Promise<JobWithDocumentOrChat | undefined> {
      return queryFirstRow(db, jobWithTarget, withTargets(actor, {}).where('jobs.id', id));
    },

    async listStopped(
      actor: Actor,
      filters: JobFilters,
      page: { after: string; limit: number },
    ): Promise<JobWithDocumentOrChat[]> {
      const stopped = withTargets(actor, filters)
        .whereIn('jobs.status', ['failed', 'cancelled', 'parked'])
        .where('jobs.id', '>', page.after)
        .orderBy('jobs.id')
        .limit(page.limit);
      return queryRows(db, jobWithTarget, stopped);
    },
  };
}
