import { bigint } from '#src/adapters/postgres/columns.ts';
import { pick, shape } from '#src/adapters/postgres/shapes.ts';
import { DocumentModel } from '#src/modules/documents/documents.model.ts';
import type { InvariantCheck } from '../invariants.model.ts';
import { countRows, faulty, pagesOf } from './rows.ts';

const lostDocument = shape({ ...pick(DocumentModel, 'id', 'orgId').columns, links: bigint() });

const brokenFolders = `
  select * from (
    select f.id, f.org_id,
           case
             when (f.parent_id is null) <> (f.kind = 'system' and f.root_id = f.id) then 'is neither a root nor in a folder'
             when f.parent_id is not null and p.root_id <> f.root_id then 'has another root than the folder that it is in'
             when f.visibility <> r.visibility or not (f.acl <@ r.acl and f.acl @> r.acl)
               or (f.owner_id, f.team_id) is distinct from (r.owner_id, r.team_id) then 'has other keys than its root'
             when not exists (
               with recursive above as (
                 select f.id, f.parent_id
                 union
                 select up.id, up.parent_id from folders up join above on up.id = above.parent_id
               )
               select from above where parent_id is null
             ) then 'is in itself'
           end as fault
    from folders f
    left join folders p on p.org_id = f.org_id and p.id = f.parent_id
    left join folders r on r.org_id = f.org_id and r.id = f.root_id
    where f.id > :after
  ) folder
  where fault is not null`;

const lostDocuments = `
  select d.id, d.org_id, due.links
  from documents d
  cross join lateral (
    select count(distinct l.folder_id) as links, array['user:' || d.created_by] || array_agg(key) as acl
    from folder_links l
    join folders f on f.org_id = l.org_id and f.id = l.folder_id
    cross join unnest(f.acl) held (key)
    where l.document_id = d.id
  ) due
  where d.id > :after and d.deleted_at is null and (due.links = 0 or not (d.acl <@ due.acl and d.acl @> due.acl))`;

/** I15: who reads a folder reads what is in it, and nobody else does. */
export const foldersShareTheirKeys: InvariantCheck = {
  invariant: 'I15',
  title: 'folders are trees with the keys of their roots, and documents have those of their folders and of their owner',
  async run({ db }, _patience, found) {
    for await (const folders of pagesOf(db, faulty, brokenFolders)) {
      for (const { id, orgId, fault } of folders) found({ orgId, detail: `Folder ${id} ${fault}.` });
    }
    for await (const documents of pagesOf(db, lostDocument, lostDocuments)) {
      for (const { id, orgId, links } of documents) {
        const detail = links === 0 ? 'It is in no folder.' : 'Its keys are not those of its folders and its owner.';
        found({ orgId, documentId: id, detail });
      }
    }
    return (await countRows(db, 'folders')) + (await countRows(db, 'documents', 'deleted_at is null'));
  },
};
