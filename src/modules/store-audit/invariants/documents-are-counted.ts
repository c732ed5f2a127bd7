import { bigint } from '#src/adapters/postgres/columns.ts';
import { pick, shape } from '#src/adapters/postgres/shapes.ts';
import { DocumentModel } from '#src/modules/documents/documents.model.ts';
import { OrganizationModel } from '#src/modules/organization/organization.model.ts';
import type { InvariantCheck } from '../invariants.model.ts';
import { countRows, pagesOf } from './rows.ts';

const miscountedOrganization = shape({ ...pick(OrganizationModel, 'id').columns, wrongTotals: bigint() });
const misplacedDocument = pick(DocumentModel, 'id', 'orgId');

/** In one statement, so that it sees both sides at one time. */
const miscounted = `
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

const misplaced = `
  select distinct d.id, d.org_id
  from folder_links l
  join documents d on d.org_id = l.org_id and d.id = l.document_id
  where d.id > :after and l.listed_at is distinct from case when d.deleted_at is null then d.updated_at end`;

/** I16: lists show, and limits count, as many documents as there are. */
export const documentsAreCounted: InvariantCheck = {
  invariant: 'I16',
  title: 'the totals of documents are their numbers and sizes, and folders list each at the time of its last change',
  async run({ db }, _patience, found) {
    for await (const organizations of pagesOf(db, miscountedOrganization, miscounted)) {
      for (const { id: orgId, wrongTotals } of organizations) {
        found({
          orgId,
          detail: `The documents of ${wrongTotals} sets of author and keys are not as many as are counted.`,
        });
      }
    }
    for await (const documents of pagesOf(db, misplacedDocument, misplaced)) {
      for (const { id, orgId } of documents) {
        found({ orgId, documentId: id, detail: 'Its folders list it at another time than that of its last change.' });
      }
    }
    return (await countRows(db, 'organizations')) + (await countRows(db, 'folder_links'));
  },
};
