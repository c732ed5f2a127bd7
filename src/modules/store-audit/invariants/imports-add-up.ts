import { NIL } from 'uuid';
import type { InvariantCheck } from '../invariants.model.ts';
import { countRows, faulty, pagesOf } from './rows.ts';

const runsThatDoNotAddUp = `
  select * from (
    select r.id, r.org_id,
           case
             when exists (select from import_files f where f.run_id = r.id and f.status = 'pending')
               then 'has succeeded, and files wait'
             when r.total <> r.added + r.updated + r.unchanged + r.failed then 'counts other files than it has found'
           end as fault
    from import_runs r
    where r.id > :after and r.status = 'succeeded'
  ) run
  where fault is not null`;

const documentsOfTwoFiles = `
  select document_id as id, org_id, 'is that of two files at a provider' as fault
  from connector_documents
  where document_id > :after
  group by org_id, document_id having count(*) > 1`;

/** I18: what was imported is there once, and counted once. */
export const importsAddUp: InvariantCheck = {
  invariant: 'I18',
  title:
    'imports and syncs that have succeeded have seen to each file that they found, and no document is of two files',
  async run({ db }, _patience, found) {
    for await (const runs of pagesOf(db, faulty, runsThatDoNotAddUp, { after: NIL })) {
      for (const { id, orgId, fault } of runs) found({ orgId, detail: `Run ${id} ${fault}.` });
    }
    for await (const documents of pagesOf(db, faulty, documentsOfTwoFiles, { after: NIL })) {
      for (const { id, orgId, fault } of documents) found({ orgId, documentId: id, detail: `It ${fault}.` });
    }
    return countRows(db, 'import_runs', `status = 'succeeded'`);
  },
};
