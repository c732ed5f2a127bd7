import { bigintColumn, defineRowShape, pickColumns } from '#src/adapters/postgres/shapes.ts';
import { DocumentModel } from '#src/modules/documents/documents.model.ts';
import { OrganizationModel } from '#src/modules/organization/organization.model.ts';
import { countRows, type InvariantCheck, queryRowPagesById, violatingRowShape } from './invariant.ts';

const documentInFolders = defineRowShape({
  ...pickColumns(DocumentModel, 'id', 'orgId').columns,
  links: bigintColumn(),
});

const brokenFolders = `
  select * from (
    select f.id, f.org_id,
           case
             when (f.parent_id is null) <> (f.kind = 'system' and f.root_id = f.id) then 'has no parent and is not a root'
             when f.parent_id is not null and p.root_id <> f.root_id then 'has another root than its parent'
             when f.visibility <> r.visibility or not (f.acl <@ r.acl and f.acl @> r.acl)
               or (f.owner_id, f.team_id) is distinct from (r.owner_id, r.team_id) then 'has other access keys than its root'
             when not exists (
               with recursive above as (
                 select f.id, f.parent_id
                 union
                 select up.id, up.parent_id from folders up join above on up.id = above.parent_id
               )
               select from above where parent_id is null
             ) then 'is its own ancestor'
           end as fault
    from folders f
    left join folders p on p.org_id = f.org_id and p.id = f.parent_id
    left join folders r on r.org_id = f.org_id and r.id = f.root_id
    where f.id > :after
  ) folder
  where fault is not null`;

const documentsWithWrongKeys = `
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

export const accessKeysFollowFolders: InvariantCheck = {
  invariant: 'I15',
  title: 'folders are trees with the access keys of their root, and documents have those of their folders and author',
  async run({ db }, _grace, report) {
    for await (const folders of queryRowPagesById(db, violatingRowShape, brokenFolders)) {
      for (const { id, orgId, fault } of folders) report({ orgId, detail: `Folder ${id} ${fault}.` });
    }
    for await (const documents of queryRowPagesById(db, documentInFolders, documentsWithWrongKeys)) {
      for (const { id, orgId, links } of documents) {
        const detail =
          links === 0
            ? 'The document is in no folder.'
            : 'The access keys of the document are not those of its folders and author.';
        report({ orgId, documentId: id, detail });
      }
    }
    return (await countRows(db, 'folders')) + (await countRows(db, 'documents', 'deleted_at is null'));
  },
};

const organizationTotals = defineRowShape({
  ...pickColumns(OrganizationModel, 'id').columns,
  wrongTotals: bigintColumn(),
});
const listedDocument = pickColumns(DocumentModel, 'id', 'orgId');

/** Compares the stored totals with the documents in one SQL statement, so that both come from the same snapshot. */
const wrongTotals = `
  select * from (
    select o.id, (
      select count(*)
      from (
        select created_by, acl, sum(documents) as documents, sum(size_bytes) as size_bytes
        from document_totals where org_id = o.id group by created_by, acl
      ) known
      full join (
        select created_by, acl, count(*) as documents, sum(size_bytes) as size_bytes
        from documents where org_id = o.id and deleted_at is null group by created_by, acl
      ) stored using (created_by, acl)
      where coalesce(known.documents, 0) <> coalesce(stored.documents, 0)
        or coalesce(known.size_bytes, 0) <> coalesce(stored.size_bytes, 0)
    ) as wrong_totals
    from organizations o
    where o.id > :after
  ) organization
  where wrong_totals > 0`;

const wrongListingTimes = `
  select distinct d.id, d.org_id
  from folder_links l
  join documents d on d.org_id = l.org_id and d.id = l.document_id
  where d.id > :after and l.listed_at is distinct from case when d.deleted_at is null then d.updated_at end`;

export const documentTotalsMatchDocuments: InvariantCheck = {
  invariant: 'I16',
  title: 'the totals of documents equal their number and size, and folders sort documents by their last change',
  async run({ db }, _grace, report) {
    for await (const organizations of queryRowPagesById(db, organizationTotals, wrongTotals)) {
      for (const { id: orgId, wrongTotals } of organizations) {
        report({ orgId, detail: `${wrongTotals} document totals (per author and access keys) are wrong.` });
      }
    }
    for await (const documents of queryRowPagesById(db, listedDocument, wrongListingTimes)) {
      for (const { id, orgId } of documents) {
        report({ orgId, documentId: id, detail: 'A folder sorts the document by a time other than its last change.' });
      }
    }
    return (await countRows(db, 'organizations')) + (await countRows(db, 'folder_links'));
  },
};

const unbalancedRuns = `
  select * from (
    select r.id, r.org_id,
           case
             when exists (select from import_files f where f.run_id = r.id and f.status = 'pending')
               then 'succeeded with pending files'
             when r.total <> r.added + r.updated + r.unchanged + r.failed
               then 'counts another number of files than it found'
           end as fault
    from import_runs r
    where r.id > :after and r.status = 'succeeded'
  ) run
  where fault is not null`;

const documentsOfTwoFiles = `
  select document_id as id, org_id, 'belongs to two files at a provider' as fault
  from connector_documents
  where document_id > :after
  group by org_id, document_id having count(*) > 1`;

export const importCountsMatchFiles: InvariantCheck = {
  invariant: 'I18',
  title: 'successful imports and syncs have handled every file they found, and no document belongs to two files',
  async run({ db }, _grace, report) {
    for await (const runs of queryRowPagesById(db, violatingRowShape, unbalancedRuns)) {
      for (const { id, orgId, fault } of runs) report({ orgId, detail: `Import run ${id} ${fault}.` });
    }
    for await (const documents of queryRowPagesById(db, violatingRowShape, documentsOfTwoFiles)) {
      for (const { id, orgId, fault } of documents) report({ orgId, documentId: id, detail: `The document ${fault}.` });
    }
    return countRows(db, 'import_runs', `status = 'succeeded'`);
  },
};
