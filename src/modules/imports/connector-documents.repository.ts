import type { Knex } from 'knex';
import { bigint, text, uuid } from '#src/adapters/postgres/columns.ts';
import { oneRow, pick, rows, shape } from '#src/adapters/postgres/shapes.ts';
import type { ImportRun } from '#src/contracts/connectors.ts';
import type { RemoteFile } from '#src/ports/connectors.ts';
import {
  type ConnectorDocument,
  ConnectorDocumentModel,
  ConnectorFolderModel,
  type ImportRunRow,
  type KnownFile,
  knownFile,
} from './imports.model.ts';

const missing = shape({ missing: bigint(), known: bigint() });
const missingFile = shape({ remoteId: text(), documentId: uuid() });

/** Of one statement: well below the time that it may take. */
const DELETED_AT_ONCE = 50;

/**
 * Of a run that was told of changes only, what of a table is gone, as queries for a `with`: by its id, in a folder that is
 * gone, or at or below a path that is, for which case does not count. Each row is looked up by the paths above it, so that
 * thousands that are gone among many more thousands take a moment, and not minutes.
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

/** Which documents files have become, and which folders there were. */
export function createConnectorDocumentsRepository(db: Knex) {
  const documents = () => ConnectorDocumentModel.table(db);

  /** A condition on rows `k`: a sync knows them, nobody has changed the document, and the run has not found the file. */
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
    async find(of: ImportRun, remoteIds: readonly string[]): Promise<KnownFile[]> {
      return rows(
        db,
        knownFile,
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

    /** A sync has nothing to do with it any more. */
    async release({ orgId, connectionId }: ImportRun, remoteId: string): Promise<void> {
      await documents().where({ orgId, connectionId, remoteId }).update({ seenRunId: null });
    },

    /** As they are, they were seen by this run. */
    async markSeen({ orgId, connectionId, runId }: ImportRun, remoteIds: readonly string[]): Promise<void> {
      await documents()
        .where({ orgId, connectionId })
        .whereIn('remoteId', [...remoteIds])
        .update({ seenRunId: runId });
    },

    /**
     * What a file has become now. Of a file that another run has made another document of meanwhile it is not stored.
     * @returns whether it was
     */
    async store(
      { orgId, connectionId }: ImportRun,
      document: Omit<ConnectorDocument, 'goneAt'>,
      before: string | null,
    ): Promise<boolean> {
      const stored = await rows(
        db,
        pick(ConnectorDocumentModel, 'remoteId'),
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
      const rows = folders.map(({ fileId: remoteId, path }) => ({ orgId, connectionId, remoteId, path }));
      await ConnectorFolderModel.table(db).insert(rows).onConflict(['connectionId', 'remoteId']).merge(['path']);
    },

    /** Whether one of these was a folder beside another of the same name: what was in which is not told by a path. */
    async hadNamesake({ orgId, connectionId }: ImportRun, remoteIds: readonly string[]): Promise<boolean> {
      const namesakes = await rows(
        db,
        shape({}),
        `select from connector_folders f
         join connector_folders other on other.connection_id = f.connection_id and other.path = f.path
         where f.org_id = :orgId and f.connection_id = :connectionId and f.remote_id = any (:remoteIds)
           and other.remote_id <> f.remote_id
         limit 1`,
        { orgId, connectionId, remoteIds: [...remoteIds] },
      );
      return namesakes.length > 0;
    },

    /** Restored, they are looked into as new ones are. */
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

    /** How many are missing, and how many there were with them. */
    async countMissing(run: ImportRunRow): Promise<{ missing: number; known: number }> {
      return oneRow(
        db,
        missing,
        `with ${goneOf('connector_documents')}
         select count(*) filter (where ${isMissing(run)}) as missing, count(*) as known
         from connector_documents k
         where k.org_id = :orgId and k.connection_id = :connectionId and k.seen_run_id is not null
           and k.gone_at is null and k.document_id is not null`,
        { orgId: run.orgId, connectionId: run.connectionId, runId: run.id },
      );
    },

    async listMissing(run: ImportRunRow): Promise<{ remoteId: string; documentId: string }[]> {
      return rows(
        db,
        missingFile,
        `with ${goneOf('connector_documents')}
         select k.remote_id, k.document_id from connector_documents k
         where ${isMissing(run)} order by k.remote_id limit ${DELETED_AT_ONCE}`,
        { orgId: run.orgId, connectionId: run.connectionId, runId: run.id },
      );
    },

    /** @returns false when that was known */
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
  };
}
