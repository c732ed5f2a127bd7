import type { Knex } from 'knex';
import { uuid } from './columns.ts';
import { rows, shape } from './shapes.ts';

const documentId = shape({ id: uuid() });

/** Folders of an organization. */
export type FoldersOf = { orgId: string; folderIds: readonly string[] };

/**
 * Holds the documents that are linked in these folders until the end of the transaction, in the order of their ids, as
 * everybody does who holds more than one. Those whose deletion has begun are left out, and all beyond `limit`.
 */
export async function lockDocumentsIn(trx: Knex, { orgId, folderIds }: FoldersOf, limit: number): Promise<string[]> {
  const locked = await rows(
    trx,
    documentId,
    `select d.id from documents d
     where d.deleted_at is null
       and d.id in (
         select l.document_id from folder_links l where l.org_id = :orgId and l.folder_id = any (:folderIds::uuid[])
       )
     order by d.id limit :limit for no key update`,
    { orgId, folderIds: [...folderIds], limit },
  );
  return locked.map(({ id }) => id);
}

/**
 * Gives documents, and their jobs, the keys that they should have: that of who has made them, and those of all folders
 * that they are in. What the vector store knows of them is marked as outdated. To be called after each change of their
 * links or of those folders, by who holds their rows.
 */
export async function renewDocumentKeys(trx: Knex, documentIds: readonly string[]): Promise<void> {
  const changed = await rows(
    trx,
    documentId,
    `update documents d set
       acl = due.acl,
       points_outdated_at = case when d.active_generation is null then d.points_outdated_at else clock_timestamp() end
     from (${dueKeys} where d.id = any (:ids::uuid[])) due
     where d.id = due.id and not (d.acl <@ due.acl and d.acl @> due.acl)
     returning d.id`,
    { ids: [...documentIds] },
  );
  await trx.raw(
    `update jobs j set acl = d.acl from documents d
     where d.id = any (:ids::uuid[]) and j.document_id = d.id`,
    { ids: changed.map(({ id }) => id) },
  );
}

/** A query of the keys that documents `d` should have. */
export const dueKeys = `
  select d.id,
         array['user:' || d.created_by] || array(
           select distinct key
           from folder_links l
           join folders f on f.org_id = l.org_id and f.id = l.folder_id
           cross join unnest(f.acl) held (key)
           where l.document_id = d.id and key <> 'user:' || d.created_by
           order by key
         ) as acl
  from documents d`;
