import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import { bigint, numeric, type Row, text } from '#src/adapters/postgres/columns.ts';
import { firstRow, pick, rows, shape } from '#src/adapters/postgres/shapes.ts';
import type { ImportRun } from '#src/contracts/connectors.ts';
import type { RemoteFile, RemoteFileQuery } from '#src/ports/connectors.ts';
import {
  type FoundFile,
  ImportFileModel,
  type ImportFileRow,
  ImportGoneModel,
  type ImportPlace,
  ImportPlaceModel,
  listedFile,
} from './imports.model.ts';

type Ended = Pick<ImportFileRow, 'documentId'> & {
  status: 'added' | 'updated' | 'unchanged' | 'failed';
  error?: { code: string; message: string };
};

const mainFailure = shape({ code: text(), message: text(), count: bigint(), failed: numeric() });
export type MainFailure = Row<typeof mainFailure>;

/** What runs have to look at, and what they have found. */
export function createImportFilesRepository(db: Knex) {
  const places = () => ImportPlaceModel.table(db);
  const files = () => ImportFileModel.table(db);
  const within = ({ orgId, runId }: Pick<ImportRun, 'orgId' | 'runId'>) => ({ orgId, runId });

  return {
    async addWishes(of: ImportRun, wishes: readonly RemoteFileQuery[]): Promise<void> {
      const rows = wishes.map((wish, item) => ({
        ...within(of),
        id: uuidv7(),
        item,
        kind: 'wish',
        remoteId: wish.fileId ?? null,
        path: wish.path ?? null,
        name: wish.name ?? null,
        folder: wish.folder ?? null,
        base: '',
      }));
      await db.batchInsert(ImportPlaceModel.tableName, rows, 500);
    },

    /** Those that the run does not know yet. */
    async addFolders(of: ImportRun, at: { item: number; base: string }, found: readonly RemoteFile[]): Promise<void> {
      if (found.length === 0) return;
      const rows = found.map(({ fileId, path }) => ({
        ...within(of),
        ...at,
        id: uuidv7(),
        kind: 'folder' as const,
        remoteId: fileId,
        path,
      }));
      const known = db.raw(`(run_id, remote_id) where kind = 'folder'`);
      await places().insert(rows).onConflict(known).ignore();
    },

    /** In place of all that the run had to look at. */
    async restart(
      of: ImportRun,
      place: { kind: 'folder' | 'changes'; path: string; nextPage: string | null },
    ): Promise<void> {
      await places().where(within(of)).delete();
      await places().insert({ ...within(of), ...place, id: uuidv7(), item: 0, base: place.path });
    },

    async nextPlace(of: ImportRun): Promise<ImportPlace | undefined> {
      return places().where(within(of)).whereNull('doneAt').orderBy('id').first();
    },

    /** `to.nextPage` null: it is done; `to.remoteId` is what it was found to be. @returns false when somebody else has come further with it */
    async advancePlace(
      { id, nextPage }: ImportPlace,
      to: { nextPage: string | null; remoteId?: string; error?: { code: string; message: string } },
    ): Promise<boolean> {
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

    /** What was asked for, and what of it could not be listed. */
    async listWishes(of: Pick<ImportRun, 'orgId' | 'runId'>): Promise<ImportPlace[]> {
      return places().where(within(of)).whereRaw(`(kind = 'wish' or error_code is not null)`).orderBy(['item', 'id']);
    },

    /**
     * Files that the run does not have yet; those with a `documentId` are done, as nothing has changed. The caller holds
     * the run. @returns how many were new
     */
    async addFiles(
      of: ImportRun,
      found: readonly (FoundFile & { unchangedAs: string | null })[],
    ): Promise<FoundFile[]> {
      if (found.length === 0) return [];
      const inserted = await rows(
        db,
        pick(ImportFileModel, 'remoteId'),
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
     * Files that the last sync could not import, to be tried again, unless they are told of anyhow: changes since then do
     * not name them. Those that were not there, or that nobody can read, stay as they are. @returns how many
     */
    async addFailedBefore({ orgId, connectionId, runId }: ImportRun): Promise<number> {
      const added = await rows(
        db,
        pick(ImportFileModel, 'n'),
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
        .where({ runId: of.runId, orgId: of.orgId, status: 'pending' })
        .orderBy('n')
        .limit(limit)
        .pluck('n');
    },

    async find(of: ImportRun, n: number): Promise<ImportFileRow | undefined> {
      return files()
        .where({ ...within(of), n })
        .first();
    },

    /** @returns false when it was done before */
    async end(of: ImportRun, n: number, { status, documentId, error }: Ended): Promise<boolean> {
      const ended = { status, documentId, errorCode: error?.code ?? null, errorMessage: error?.message ?? null };
      return (
        (await files()
          .where({ ...within(of), n, status: 'pending' })
          .update(ended)) > 0
      );
    },

    async list(of: Pick<ImportRun, 'orgId' | 'runId'>, limit: number): Promise<Row<typeof listedFile>[]> {
      const listed = files()
        .leftJoin('documents', { 'documents.orgId': 'importFiles.orgId', 'documents.id': 'importFiles.documentId' })
        .where({ 'importFiles.orgId': of.orgId, 'importFiles.runId': of.runId })
        .orderBy(['importFiles.item', 'importFiles.n'])
        .limit(limit)
        .select('importFiles.*', 'documents.generation');
      return rows(db, listedFile, listed);
    },

    /** Why most of what failed did so, with how many that were, and how many failed in all. */
    async mainFailure(of: Pick<ImportRun, 'orgId' | 'runId'>): Promise<MainFailure | undefined> {
      return firstRow(
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

    async removeGone(of: ImportRun, remoteIds: readonly string[]): Promise<void> {
      await ImportGoneModel.table(db)
        .where(within(of))
        .whereIn('remoteId', [...remoteIds])
        .delete();
    },

    async addGone(of: ImportRun, gone: readonly ({ remoteId: string } | { path: string })[]): Promise<void> {
      if (gone.length > 0)
        await db.batchInsert(
          ImportGoneModel.tableName,
          gone.map((one) => ({ ...within(of), ...one })),
          500,
        );
    },
  };
}
