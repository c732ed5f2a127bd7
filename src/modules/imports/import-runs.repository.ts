import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import { orderNewestFirst, toListPage } from '#src/adapters/postgres/keyset.ts';
import {
  bigintColumn,
  defineRowShape,
  numericColumn,
  pickColumns,
  queryFirstRow,
  queryRows,
  type SqlRow,
  textColumn,
} from '#src/adapters/postgres/shapes.ts';
import type { ImportCounts, ImportRun } from '#src/contracts/connectors.ts';
import type { ListPosition } from '#src/contracts/request-data.ts';
import { appError } from '#src/errors.ts';
import { ConnectionModel } from '#src/modules/connectors/connections.model.ts';
import type { RemoteFile, RemoteFileQuery } from '#src/ports/connectors.ts';
import {
  type ImportConnection,
  ImportDeletionModel,
  ImportFileModel,
  type ImportFileRow,
  type ImportPlace,
  ImportPlaceModel,
  ImportRunModel,
  type ImportRunRow,
  importConnectionRowShape,
  importFileViewRowShape,
  type ListedRemoteFile,
  type NewImportRunRow,
} from './imports.model.ts';

const listedRun = defineRowShape({ ...ImportRunModel.columns, sortKey: textColumn() });

const mainFailure = defineRowShape({
  code: textColumn(),
  message: textColumn(),
  count: bigintColumn(),
  failed: numericColumn(),
});
export type MostFrequentImportError = SqlRow<typeof mainFailure>;

type FileOutcome = Pick<ImportFileRow, 'documentId'> & {
  status: 'added' | 'updated' | 'unchanged' | 'failed';
  error?: { code: string; message: string };
};

type ConnectionKey = { orgId: string; connectionId: string };
type RunKey = Pick<ImportRun, 'orgId' | 'runId'>;

const runKey = ({ orgId, connectionId, runId }: ImportRun) => ({ orgId, connectionId, id: runId });
const within = ({ orgId, runId }: RunKey) => ({ orgId, runId });

/** Number of import runs that one SQL statement deletes, small because each may have many thousands of files. */
const OLD_RUNS_AT_ONCE = 20;

/** Result of listing one page of an `ImportPlace`. `nextPage` is the cursor of the next page; null at the end. */
export type ImportPlaceListingProgress = {
  nextPage: string | null;
  remoteId?: string;
  error?: { code: string; message: string };
};

export function createImportRunsRepository(db: Knex) {
  const runs = () => ImportRunModel.table(db);
  const places = () => ImportPlaceModel.table(db);
  const files = () => ImportFileModel.table(db);
  const connection = (of: ConnectionKey) => ConnectionModel.table(db).where({ orgId: of.orgId, id: of.connectionId });
  const connectionColumns = Object.keys(importConnectionRowShape.columns);

  /**
   * Locks the connection against deletion. Must precede locks on the connection's import runs, because a deletion locks
   * in the same order; another order could deadlock.
   */
  async function holdConnection(of: ConnectionKey): Promise<void> {
    await connection(of).forKeyShare().first('id');
  }

  return {
    async findConnection(of: ConnectionKey): Promise<ImportConnection | undefined> {
      return queryFirstRow(db, importConnectionRowShape, connection(of).select(connectionColumns));
    },

    holdConnection,

    /**
     * Locks a connection: until the transaction ends, it cannot be deleted, and no other import run of it can begin.
     */
    async lockConnection(of: ConnectionKey): Promise<ImportConnection | undefined> {
      return queryFirstRow(db, importConnectionRowShape, connection(of).forNoKeyUpdate().select(connectionColumns));
    },

    async insertRun(run: NewImportRunRow): Promise<void> {
      await runs().insert(run);
    },

    async findRun(of: ImportRun): Promise<ImportRunRow | undefined> {
      return runs().where(runKey(of)).first();
    },

    /**
     * Locks an import run. To avoid deadlocks, call it after locking the run's job, and before writing its rows of
     * `import_places` (what the run lists) and `import_files`. Throws `connection_not_found`, because a run is deleted
     * with its connection.
     */
    async lockRun(of: ImportRun): Promise<ImportRunRow> {
      await holdConnection(of);
      const run = await runs().where(runKey(of)).forUpdate().first();
      if (run === undefined) throw appError('connection_not_found');
      return run;
    },

    async updateRun(
      of: ImportRun,
      change: Partial<Pick<ImportRunRow, 'mode' | 'cursor' | 'isListed' | 'acceptsDeletions'>>,
    ): Promise<void> {
      await runs().where(runKey(of)).update(change);
    },

    async addCounts(of: ImportRun, counts: Partial<ImportCounts>): Promise<void> {
      const more = Object.fromEntries(Object.entries(counts).map(([name, by]) => [name, db.raw('?? + ?', [name, by])]));
      if ((await runs().where(runKey(of)).update(more)) === 0) throw new Error(`import run ${of.runId} does not exist`);
    },

    async listSyncs(
      of: ConnectionKey,
      page: { limit: number; after: ListPosition | null },
    ): Promise<{ items: ImportRunRow[]; last: ListPosition | null }> {
      const query = runs()
        .where({ ...of, kind: 'sync' })
        .select('importRuns.*');
      const listed = orderNewestFirst(query, { ...page, time: 'importRuns.createdAt', id: 'importRuns.id' });
      return toListPage(await queryRows(db, listedRun, listed), page.limit);
    },

    async deleteOldRuns(days: number): Promise<number> {
      const old = runs()
        .whereRaw('finished_at < now() - make_interval(days => ?)', [days])
        .orderBy('finishedAt')
        .limit(OLD_RUNS_AT_ONCE)
        .select('id');
      return runs().whereIn('id', old).delete();
    },

    async addRequestedFiles(of: ImportRun, queries: readonly RemoteFileQuery[]): Promise<void> {
      const requested = queries.map((query, item) => ({
        ...within(of),
        id: uuidv7(),
        item,
        kind: 'wish',
        remoteId: query.fileId ?? null,
        path: query.path ?? null,
        name: query.name ?? null,
        folder: query.folder ?? null,
        base: '',
      }));
      await db.batchInsert(ImportPlaceModel.tableName, requested, 500);
    },

    async addFolders(of: ImportRun, at: { item: number; base: string }, found: readonly RemoteFile[]): Promise<void> {
      if (found.length === 0) return;
      const folders = found.map(({ fileId, path }) => ({
        ...within(of),
        ...at,
        id: uuidv7(),
        kind: 'folder' as const,
        remoteId: fileId,
        path,
      }));
      const known = db.raw(`(run_id, remote_id) where kind = 'folder'`);
      await places().insert(folders).onConflict(known).ignore();
    },

    /**
     * Restarts the listing of an import run from one import place, and recounts its `total` and `unchanged` from the
     * files stored so far.
     */
    async restartListing(
      of: ImportRun,
      place: { kind: 'folder' | 'changes'; path: string; nextPage: string | null },
    ): Promise<void> {
      await places().where(within(of)).delete();
      await places().insert({ ...within(of), ...place, id: uuidv7(), item: 0, base: place.path });
      await db.raw(
        `update import_runs r set total = f.total, unchanged = f.unchanged
         from (
           select count(*) as total, count(*) filter (where status = 'unchanged') as unchanged
           from import_files where run_id = :runId
         ) f
         where r.id = :runId`,
        { runId: of.runId },
      );
    },

    async nextPlace(of: ImportRun): Promise<ImportPlace | undefined> {
      return places().where(within(of)).whereNull('doneAt').orderBy('id').first();
    },

    /**
     * Stores the cursor of an import place's next page, or marks the place as listed if there is none. Returns false if
     * another worker has done so before.
     */
    async advancePlace({ id, nextPage }: ImportPlace, to: ImportPlaceListingProgress): Promise<boolean> {
      const { code = null, message = null } = to.error ?? {};
      const { remoteId } = to;
      const done = {
        doneAt: db.fn.now(),
        errorCode: code,
        errorMessage: message,
        ...(remoteId !== undefined && { remoteId }),
      };
      const change = to.nextPage === null ? done : { nextPage: to.nextPage };
      const advanced = await places().where({ id, nextPage }).whereNull('doneAt').update(change);
      return advanced > 0;
    },

    async listRequested(of: RunKey): Promise<ImportPlace[]> {
      return places().where(within(of)).whereRaw(`(kind = 'wish' or error_code is not null)`).orderBy(['item', 'id']);
    },

    /**
     * Adds listed files to an import run, and returns those that are new to it. An unchanged file has its document's id
     * as `unchangedAs` and is not imported again.
     */
    async addFiles(
      of: ImportRun,
      found: readonly (ListedRemoteFile & { unchangedAs: string | null })[],
    ): Promise<ListedRemoteFile[]> {
      if (found.length === 0) return [];
      const inserted = await queryRows(
        db,
        pickColumns(ImportFileModel, 'remoteId'),
        `insert into import_files (org_id, run_id, n, item, remote_id, remote, local_path, status, document_id)
         select :orgId, :runId,
                (select coalesce(max(n), 0) from import_files where run_id = :runId) + row_number() over (order by f."at"),
                f."item", f."remoteId", f."remote", f."localPath",
                case when f."unchangedAs" is null then 'pending' else 'unchanged' end, f."unchangedAs"
         from jsonb_to_recordset(:found) as f (
           "at" int, "item" int, "remoteId" text, "remote" jsonb, "localPath" text[], "unchangedAs" uuid
         )
         on conflict (run_id, remote_id) do nothing
         returning remote_id`,
        {
          ...within(of),
          found: JSON.stringify(found.map((file, at) => ({ ...file, at, remoteId: file.remote.fileId }))),
        },
      );
      const added = new Set(inserted.map(({ remoteId }) => remoteId));
      return found.filter(({ remote }) => added.has(remote.fileId));
    },

    /**
     * Adds to a sync the files that failed in the last successful one, because the change feed does not repeat them.
     * Leaves out files that were missing or had an unsupported format. Returns the number of added files.
     */
    async addFailedBefore({ orgId, connectionId, runId }: ImportRun): Promise<number> {
      const added = await queryRows(
        db,
        pickColumns(ImportFileModel, 'n'),
        `insert into import_files (org_id, run_id, n, item, remote_id, remote, local_path, status)
         select :orgId, :runId,
                (select coalesce(max(n), 0) from import_files where run_id = :runId) + row_number() over (order by f.n),
                0, f.remote_id, f.remote, f.local_path, 'pending'
         from import_files f
         where f.run_id = (
             select id from import_runs
             where org_id = :orgId and connection_id = :connectionId and kind = 'sync' and status = 'succeeded'
             order by created_at desc, id desc limit 1
           )
           and f.status = 'failed' and f.error_code not in ('remote_file_not_found', 'unsupported_format')
           and not exists (select from import_gone g where g.run_id = :runId and g.remote_id = f.remote_id)
         on conflict (run_id, remote_id) do nothing
         returning n`,
        { orgId, connectionId, runId },
      );
      return added.length;
    },

    async pendingNumbers(of: ImportRun, limit: number): Promise<number[]> {
      return files()
        .where({ ...within(of), status: 'pending' })
        .orderBy('n')
        .limit(limit)
        .pluck('n');
    },

    async findFile(of: ImportRun, n: number): Promise<ImportFileRow | undefined> {
      return files()
        .where({ ...within(of), n })
        .first();
    },

    async recordOutcome(of: ImportRun, n: number, { status, documentId, error }: FileOutcome): Promise<boolean> {
      const outcome = { status, documentId, errorCode: error?.code ?? null, errorMessage: error?.message ?? null };
      const pending = files().where({ ...within(of), n, status: 'pending' });
      return (await pending.update(outcome)) > 0;
    },

    async listFiles(of: RunKey, limit: number): Promise<SqlRow<typeof importFileViewRowShape>[]> {
      const listed = files()
        .leftJoin('documents', { 'documents.orgId': 'importFiles.orgId', 'documents.id': 'importFiles.documentId' })
        .where({ 'importFiles.orgId': of.orgId, 'importFiles.runId': of.runId })
        .orderBy(['importFiles.item', 'importFiles.n'])
        .limit(limit)
        .select('importFiles.*', 'documents.generation');
      return queryRows(db, importFileViewRowShape, listed);
    },

    async mainFailure(of: RunKey): Promise<MostFrequentImportError | undefined> {
      return queryFirstRow(
        db,
        mainFailure,
        `select error_code as code, min(error_message) as message, count(*) as count, sum(count(*)) over () as failed
         from (
           select error_code, error_message from import_files
           where org_id = :orgId and run_id = :runId and status = 'failed'
           union all
           select error_code, error_message from import_places
           where org_id = :orgId and run_id = :runId and error_code is not null
         ) f
         group by error_code order by count(*) desc, error_code limit 1`,
        within(of),
      );
    },

    async addGone(of: ImportRun, gone: readonly ({ remoteId: string } | { path: string })[]): Promise<void> {
      if (gone.length === 0) return;
      const deleted = gone.map((one) => ({ ...within(of), ...one }));
      await db.batchInsert(ImportDeletionModel.tableName, deleted, 500);
    },

    async removeGone(of: ImportRun, remoteIds: readonly string[]): Promise<void> {
      await ImportDeletionModel.table(db)
        .where(within(of))
        .whereIn('remoteId', [...remoteIds])
        .delete();
    },
  };
}
