import { integer, type Row } from '#src/adapters/postgres/columns.ts';
import { pick, shape } from '#src/adapters/postgres/shapes.ts';
import { JobModel } from '#src/modules/jobs/jobs.model.ts';
import type { InvariantCheck, InvariantDeps, Patience } from '../invariants.model.ts';
import { countRows, faulty, pagesOf } from './rows.ts';

const documentWithoutEnd = shape({ ...faulty.columns, generation: integer() });
const openJob = pick(JobModel, 'id', 'orgId', 'documentId');

const documentsWithoutEnd = `
  select * from (
     select d.id, d.org_id, d.generation,
            case
              when j.id is null then 'has no job'
              when j.status = 'failed' and (j.error_code is null or j.error_message is null) then 'failed without a reason'
              when j.status = 'succeeded' and d.active_generation is distinct from d.generation
                then 'succeeded, and readers do not see it'
            end as fault
     from documents d
     left join jobs j on j.id = 'ingest-' || d.id || '-' || d.generation
     where d.generation > 0 and d.deleted_at is null and d.id > :after
   ) document
   where fault is not null`;

/** I1: whoever was told that an upload is stored gets to see it, or why not. */
export const uploadsEnd: InvariantCheck = {
  invariant: 'I1',
  title: 'every document asked for is complete, failed with a reason, or in the hands of a run',
  async run(deps, patience, found) {
    for await (const documents of pagesOf(deps.db, documentWithoutEnd, documentsWithoutEnd)) {
      for (const { id, orgId, generation, fault } of documents) {
        found({ orgId, documentId: id, detail: `Generation ${generation} ${fault}.` });
      }
    }
    await eachForgottenJob(deps, patience, ({ id, orgId, documentId }) =>
      found({
        orgId,
        detail: `Job ${id} is open, and no run works on it.`,
        ...(documentId !== null && { documentId }),
      }),
    );
    return countRows(deps.db, 'documents', 'generation > 0 and deleted_at is null');
  },
};

/** The sweeper brings jobs in line with their runs; what it has not seen to in time is forgotten. */
async function eachForgottenJob(
  { db, orchestrator }: InvariantDeps,
  { reconcileSeconds: seconds }: Patience,
  see: (job: Row<typeof openJob>) => void,
): Promise<void> {
  const quiet = `
    select id, org_id, document_id from jobs
    where id > :after and finished_at is null and dispatched_at is not null
      and greatest(updated_at, dispatched_at) < now() - make_interval(secs => :seconds)`;
  for await (const jobs of pagesOf(db, openJob, quiet, { after: '', seconds })) {
    for (const job of jobs) {
      if ((await orchestrator.describe(job.id)) === 'open') continue;
      const isStillOpen = await JobModel.table(db)
        .where({ id: job.id, finishedAt: null })
        .whereNotNull('dispatchedAt')
        .first('id');
      if (isStillOpen !== undefined) see(job);
    }
  }
}
