import type { ImportRun } from '#src/contracts/connectors.ts';
import type { RemoteFile } from '#src/ports/connector.ts';
import type { Db } from '#src/ports/database.ts';
import type { ConnectorDocument, ImportRunRow, KnownFile } from './imports.model.ts';

/** Of one statement: well below the time that it may take. */
const DELETED_AT_ONCE = 50;

/** Which documents files have become, and which folders there were. */
export function createConnectorDocumentsRepository(db: Db) {
  const documents = () => db<ConnectorDocument & { orgId: string; connectionId: string }>('connectorDocuments');

  /**
   * A condition on rows `k`: a sync knows them, nobody has changed the document, and the run has not found the file. A
   * run that was told of changes only goes by what it was told: by id, by path, and all in folders that are gone.
   */
  const isMissing = ({ mode }: Pick<ImportRunRow, 'mode'>): string => `
    k.org_id = :orgId and k.connection_id = :connectionId
    and k.seen_run_id is not null and k.gone_at is null
    and exists (
      select from documents d
      where d.org_id = k.org_id and d.id = k.document_id and d.deleted_at is null
        and d.content_sha256 = k.content_sha256
    )
    and not exists (select from import_files f where f.run_id = :runId and f.remote_id = k.remote_id)
    and ${
      mode === 'full'
        ? 'k.seen_run_id <> :runId'
        : `exists (
      select from import_gone g
      left join connector_folders gf on gf.connection_id = k.connection_id and gf.remote_id = g.remote_id
      where g.org_id = :orgId and g.run_id = :runId
        and (g.remote_id = k.remote_id
          or lower(k.path) = lower(coalesce(g.path, gf.path))
          or starts_with(lower(k.path), lower(coalesce(g.path, gf.path)) || '/'))
    )`
    }`;

  return {
    async find(of: ImportRun, remoteIds: readonly string[]): Promise<KnownFile[]> {
      const { rows } = await db.raw<{ rows: KnownFile[] }>(
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
      return rows;
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
      const { rows } = await db.raw<{ rows: unknown[] }>(
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
      return rows.length > 0;
    },

    async knownFolders({ orgId, connectionId }: ImportRun, remoteIds: readonly string[]): Promise<Map<string, string>> {
      const rows: { remoteId: string; path: string }[] = await db('connectorFolders')
        .where({ orgId, connectionId })
        .whereIn('remoteId', [...remoteIds])
        .select('remoteId', 'path');
      return new Map(rows.map(({ remoteId, path }) => [remoteId, path]));
    },

    async storeFolders({ orgId, connectionId }: ImportRun, folders: readonly RemoteFile[]): Promise<void> {
      if (folders.length === 0) return;
      const rows = folders.map(({ fileId: remoteId, path }) => ({ orgId, connectionId, remoteId, path }));
      await db('connectorFolders').insert(rows).onConflict(['connectionId', 'remoteId']).merge(['path']);
    },

    /** Restored, they are looked into as new ones are. */
    async forgetGoneFolders({ orgId, connectionId, runId }: ImportRun): Promise<void> {
      await db.raw(
        `delete from connector_folders f
         using import_gone g left join connector_folders gf
           on gf.connection_id = :connectionId and gf.remote_id = g.remote_id
         where g.org_id = :orgId and g.run_id = :runId and f.org_id = :orgId and f.connection_id = :connectionId
           and (lower(f.path) = lower(coalesce(g.path, gf.path))
             or starts_with(lower(f.path), lower(coalesce(g.path, gf.path)) || '/'))`,
        { orgId, connectionId, runId },
      );
    },

    /** How many are missing, and how many there were with them. */
    async countMissing(run: ImportRunRow): Promise<{ missing: number; known: number }> {
      const { rows } = await db.raw<{ rows: [{ missing: number; known: number }] }>(
        `select count(*) filter (where ${isMissing(run)}) as missing, count(*) as known
         from connector_documents k
         where k.org_id = :orgId and k.connection_id = :connectionId and k.seen_run_id is not null
           and k.gone_at is null and k.document_id is not null`,
        { orgId: run.orgId, connectionId: run.connectionId, runId: run.id },
      );
      return rows[0];
    },

    async listMissing(run: ImportRunRow): Promise<{ remoteId: string; documentId: string }[]> {
      const { rows } = await db.raw<{ rows: { remoteId: string; documentId: string }[] }>(
        `select k.remote_id, k.document_id from connector_documents k
         where ${isMissing(run)} order by k.remote_id limit ${DELETED_AT_ONCE}`,
        { orgId: run.orgId, connectionId: run.connectionId, runId: run.id },
      );
      return rows;
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
