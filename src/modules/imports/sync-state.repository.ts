import type { Knex } from 'knex';
import {
  bigintColumn,
  defineRowShape,
  pickColumns,
  queryFirstRow,
  queryOneRow,
  queryRows,
  textColumn,
  uuidColumn,
} from '#src/adapters/postgres/shapes.ts';
import type { ImportRun } from '#src/contracts/connectors.ts';
import type { RemoteFile } from '#src/ports/connectors.ts';
import {
  ConnectionScheduleModel,
  ConnectorCursorModel,
  type ConnectorDocument,
  ConnectorDocumentModel,
  ConnectorFolderModel,
  type ImportedFile,
  ImportRunModel,
  type ImportRunRow,
  importedFileRowShape,
  type SyncCursor,
  syncCursorRowShape,
} from './imports.model.ts';

const missingCounts = defineRowShape({ missing: bigintColumn(), known: bigintColumn() });
const missingFile = defineRowShape({ remoteId: textColumn(), documentId: uuidColumn() });

const DELETED_AT_ONCE = 50;

/**
 * Common table expressions for delta syncs. `gone` selects the rows of `table` whose file or folder was deleted at the
 * provider: by its own id, by the id of a parent folder, or by its own or a parent's path (case-insensitive). Joins on
 * the prefixes of each path, because comparing each row with each deleted path would take minutes.
 */
const goneOf = (table: 'connector_documents' | 'connector_folders'): string => `
  told as materialized (select remote_id, path from import_gone where org_id = :orgId and run_id = :runId),
  levels as materialized (
    select t.remote_id, array_to_string(t.names[:level], '/') as path, level < cardinality(t.names) as is_above
    from (
      select remote_id, string_to_array(path, '/') as names from ${table}
      where org_id = :orgId and connection_id = :connectionId
    ) t
    cross join generate_series(1, cardinality(t.names)) level
  ),
  gone as materialized (
    select remote_id from told where remote_id is not null
    union
    select remote_id from levels
    where is_above and path in (
      select f.path from connector_folders f
      where f.connection_id = :connectionId and f.remote_id in (select remote_id from told)
    )
    union
    select remote_id from levels where lower(path) in (select lower(path) from told)
  )`;

/** Stores what syncs know of a connection: its imported documents, its remote folders and its change cursor. */
export function createConnectorDocumentsRepository(db: Knex) {
  const documents = () => ConnectorDocumentModel.table(db);

  /**
   * SQL condition on rows `k` of `connector_documents`: the run did not find the remote file, and its document still
   * has the imported content.
   */
  const isMissing = ({ mode }: Pick<ImportRunRow, 'mode'>): string => `
    k.org_id = :orgId and k.connection_id = :connectionId
    and k.seen_run_id <> :runId and k.gone_at is null
    and exists (
      select from documents d
      where d.org_id = k.org_id and d.id = k.document_id and d.deleted_at is null
        and d.content_sha256 = k.content_sha256
    )
    and not exists (select from import_files f where f.run_id = :runId and f.remote_id = k.remote_id)
    ${mode === 'full' ? '' : 'and k.remote_id in (select remote_id from gone)'}`;

  return {
    async find(of: ImportRun, remoteIds: readonly string[]): Promise<ImportedFile[]> {
      return queryRows(
        db,
        importedFileRowShape,
        `select k.*, case when d.id is not null then jsonb_build_object(
           'name', d.name, 'contentSha256', d.content_sha256,
           'isWhereItWasPut', (
             select array_agg(l.folder_id) = array[k.folder_id] from folder_links l where l.document_id = d.id
           )
         ) end as document
         from connector_documents k
         left join documents d on d.org_id = k.org_id and d.id = k.document_id and d.deleted_at is null
         where k.org_id = :orgId and k.connection_id = :connectionId and k.remote_id = any (:remoteIds)`,
        { orgId: of.orgId, connectionId: of.connectionId, remoteIds: [...remoteIds] },
      );
    },

    /** Excludes a document from deletion by later syncs, until a sync finds its remote file again. */
    async detach({ orgId, connectionId }: ImportRun, remoteId: string): Promise<void> {
      await documents().where({ orgId, connectionId, remoteId }).update({ seenRunId: null });
    },

    async markSeen({ orgId, connectionId, runId }: ImportRun, remoteIds: readonly string[]): Promise<void> {
      await documents()
        .where({ orgId, connectionId })
        .whereIn('remoteId', [...remoteIds])
        .update({ seenRunId: runId });
    },

    async store(
      { orgId, connectionId }: ImportRun,
      document: Omit<ConnectorDocument, 'goneAt'>,
      before: string | null,
    ): Promise<boolean> {
      const stored = await queryRows(
        db,
        pickColumns(ConnectorDocumentModel, 'remoteId'),
        `insert into connector_documents (
           org_id, connection_id, remote_id, document_id, revision, content_sha256, name, path, target_folder_id,
           local_path, folder_id, seen_run_id
         ) values (
           :orgId, :connectionId, :remoteId, :documentId, :revision, :contentSha256, :name, :path, :targetFolderId,
           :localPath, :folderId, :seenRunId
         )
         on conflict (connection_id, remote_id) do update set
           document_id = excluded.document_id, revision = excluded.revision, content_sha256 = excluded.content_sha256,
           name = excluded.name, path = excluded.path, target_folder_id = excluded.target_folder_id,
           local_path = excluded.local_path, folder_id = excluded.folder_id,
           seen_run_id = coalesce(excluded.seen_run_id, connector_documents.seen_run_id), gone_at = null
         where connector_documents.document_id is not distinct from :before
         returning remote_id`,
        { orgId, connectionId, ...document, before },
      );
      return stored.length > 0;
    },

    async knownFolders({ orgId, connectionId }: ImportRun, remoteIds: readonly string[]): Promise<Map<string, string>> {
      const folders = await ConnectorFolderModel.table(db)
        .where({ orgId, connectionId })
        .whereIn('remoteId', [...remoteIds])
        .select('remoteId', 'path');
      return new Map(folders.map(({ remoteId, path }) => [remoteId, path]));
    },

    async storeFolders({ orgId, connectionId }: ImportRun, folders: readonly RemoteFile[]): Promise<void> {
      if (folders.length === 0) return;
      const found = folders.map(({ fileId: remoteId, path }) => ({ orgId, connectionId, remoteId, path }));
      await ConnectorFolderModel.table(db).insert(found).onConflict(['connectionId', 'remoteId']).merge(['path']);
    },

    /**
     * Returns true if another remote folder has the path of one of these folders, so that a file's path does not tell
     * which folder it is in.
     */
    async sharesPath({ orgId, connectionId }: ImportRun, remoteIds: readonly string[]): Promise<boolean> {
      const sharing = await queryRows(
        db,
        defineRowShape({}),
        `select from connector_folders f
         join connector_folders other on other.connection_id = f.connection_id and other.path = f.path
         where f.org_id = :orgId and f.connection_id = :connectionId and f.remote_id = any (:remoteIds)
           and other.remote_id <> f.remote_id
         limit 1`,
        { orgId, connectionId, remoteIds: [...remoteIds] },
      );
      return sharing.length > 0;
    },

    /**
     * Deletes stored folders that no longer exist at the provider, so that a restored folder is listed like a new one.
     */
    async forgetGoneFolders({ orgId, connectionId, id: runId, mode }: ImportRunRow): Promise<void> {
      const isGone =
        mode === 'full'
          ? `not exists (
               select from import_places p
               where p.run_id = :runId and p.remote_id = f.remote_id and p.kind = 'folder' and p.error_code is null
             )`
          : 'f.remote_id in (select remote_id from gone)';
      await db.raw(
        `with ${goneOf('connector_folders')}
         delete from connector_folders f
         where f.org_id = :orgId and f.connection_id = :connectionId and ${isGone}`,
        { orgId, connectionId, runId },
      );
    },

    async countMissing(run: ImportRunRow): Promise<{ missing: number; known: number }> {
      return queryOneRow(
        db,
        missingCounts,
        `with ${goneOf('connector_documents')}
         select count(*) filter (where ${isMissing(run)}) as missing, count(*) as known
         from connector_documents k
         where k.org_id = :orgId and k.connection_id = :connectionId and k.seen_run_id is not null
           and k.gone_at is null and k.document_id is not null`,
        { orgId: run.orgId, connectionId: run.connectionId, runId: run.id },
      );
    },

    async listMissing(run: ImportRunRow): Promise<{ remoteId: string; documentId: string }[]> {
      return queryRows(
        db,
        missingFile,
        `with ${goneOf('connector_documents')}
         select k.remote_id, k.document_id from connector_documents k
         where ${isMissing(run)} order by k.remote_id limit ${DELETED_AT_ONCE}`,
        { orgId: run.orgId, connectionId: run.connectionId, runId: run.id },
      );
    },

    async markGone(
      { orgId, connectionId }: Pick<ImportRun, 'orgId' | 'connectionId'>,
      remoteId: string,
    ): Promise<boolean> {
      const gone = await documents()
        .where({ orgId, connectionId, remoteId })
        .whereNull('goneAt')
        .update({ goneAt: db.fn.now(), documentId: null });
      return gone > 0;
    },

    async findCursor(connectionId: string): Promise<SyncCursor | undefined> {
      const isFresh = db.raw(`reconciled_at > now() - interval '1 day' as is_fresh`);
      const cursor = ConnectorCursorModel.table(db).where({ connectionId });
      return queryFirstRow(
        db,
        syncCursorRowShape,
        cursor.select('folder', 'targetFolderId', 'deletesMissing', 'cursor', isFresh),
      );
    },

    async storeCursor(run: ImportRunRow): Promise<void> {
      const { orgId, connectionId, folder, targetFolderId, deletesMissing, cursor, mode } = run;
      const stored = { folder, targetFolderId, deletesMissing, cursor };
      await ConnectorCursorModel.table(db)
        .insert({ orgId, connectionId, ...stored, reconciledAt: db.fn.now() })
        .onConflict('connectionId')
        .merge({ ...stored, ...(mode === 'full' && { reconciledAt: db.fn.now() }) });
    },
  };
}

/** Lease for updating a Temporal schedule, longer than the timeout of the call that updates it. */
const LEASE_SECONDS = 30;

/**
 * Reads `outdated_at` as text, because a JavaScript date has no microseconds and the comparison with the stored value
 * needs them.
 */
const outdatedAt = defineRowShape({ outdatedAt: textColumn() });

/**
 * Finds connections whose Temporal schedule may not match their settings. A trigger sets `outdated_at` on each change
 * of a connection; the process that updates the schedule holds a lease meanwhile.
 */
export function createConnectionSchedulesRepository(db: Knex) {
  return {
    /**
     * Takes the lease to update a connection's Temporal schedule. Returns the time of the connection's last change;
     * undefined if the schedule is up to date or another process holds the lease.
     */
    async claim(connectionId: string): Promise<string | undefined> {
      const claiming = ConnectionScheduleModel.table(db)
        .where({ connectionId })
        .whereNotNull('outdatedAt')
        .whereRaw('(leased_until is null or leased_until < clock_timestamp())')
        .update({ leasedUntil: db.raw('clock_timestamp() + make_interval(secs => ?)', [LEASE_SECONDS]) })
        .returning(db.raw('outdated_at::text'));
      return (await queryFirstRow(db, outdatedAt, claiming))?.outdatedAt;
    },

    /**
     * Ends the lease to update a connection's schedule. `applied` is the change time that the schedule now reflects;
     * undefined after a failure. Returns false if the connection has changed since then.
     */
    async release(connectionId: string, applied: string | undefined): Promise<boolean> {
      const remaining = db.raw('case when outdated_at = ?::timestamptz then null else clock_timestamp() end', [
        applied ?? null,
      ]);
      const [row] = await ConnectionScheduleModel.table(db)
        .where({ connectionId })
        .update({ leasedUntil: null, outdatedAt: remaining })
        .returning('outdatedAt');
      return row === undefined || row.outdatedAt === null;
    },

    async addOrphan(of: { orgId: string; connectionId: string }): Promise<void> {
      await ConnectionScheduleModel.table(db)
        .insert({ ...of, outdatedAt: db.raw('clock_timestamp()') })
        .onConflict('connectionId')
        .ignore();
    },

    async remove(connectionId: string): Promise<void> {
      await ConnectionScheduleModel.table(db).where({ connectionId }).delete();
    },

    async listOutdated(graceSeconds: number, limit: number): Promise<{ orgId: string; connectionId: string }[]> {
      return ConnectionScheduleModel.table(db)
        .whereRaw('outdated_at < clock_timestamp() - make_interval(secs => ?)', [graceSeconds])
        .orderBy('outdatedAt')
        .limit(limit)
        .select('orgId', 'connectionId');
    },

    async markOutdated({ orgId, connectionId }: { orgId: string; connectionId: string }): Promise<void> {
      await ConnectionScheduleModel.table(db)
        .where({ orgId, connectionId })
        .update({ outdatedAt: db.raw('clock_timestamp()') });
    },

    async markAllOutdated(): Promise<void> {
      await ConnectionScheduleModel.table(db)
        .whereNull('outdatedAt')
        .update({ outdatedAt: db.raw('clock_timestamp()') });
    },

    async listParkedJobs(of: { orgId: string; connectionId: string }): Promise<string[]> {
      const codes = ['needs_reauth', 'not_granted', 'credentials_unreadable', 'provider_not_configured'];
      const parked = ImportRunModel.table(db).where(of).where({ status: 'parked' }).whereIn('errorCode', codes);
      return (await parked.select('jobId')).map(({ jobId }) => jobId);
    },
  };
}
