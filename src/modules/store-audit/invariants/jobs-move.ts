import type { InvariantCheck } from '../invariants.model.ts';
import { countRows } from './rows.ts';

/** A step fails, or parks its run, after a day at the latest: twice that is more than any run may take. */
const LONGEST_RUN_HOURS = 48;
const ROWS_SHOWN = 500;

/** I11: no work is forgotten. */
export const jobsMove: InvariantCheck = {
  invariant: 'I11',
  title: 'no job waits to be started, and none runs for longer than it may',
  async run({ db }, { dispatchSeconds }, found) {
    const { rows } = await db.raw<{ rows: { id: string; orgId: string; documentId: string | null; waits: boolean }[] }>(
      `select id, org_id, document_id, dispatched_at is null as waits
       from jobs
       where finished_at is null and (
         (dispatched_at is null and greatest(updated_at, checked_at) < now() - make_interval(secs => :dispatchSeconds))
         or (status in ('queued', 'running') and dispatched_at < now() - make_interval(hours => :longestRunHours))
       )
       order by id limit :limit`,
      { dispatchSeconds, longestRunHours: LONGEST_RUN_HOURS, limit: ROWS_SHOWN },
    );
    for (const { id, orgId, documentId, waits } of rows) {
      const detail = waits ? `Job ${id} was never started.` : `Job ${id} has run for over ${LONGEST_RUN_HOURS} hours.`;
      found({ orgId, detail, ...(documentId !== null && { documentId }) });
    }
    return countRows(db, 'jobs', 'finished_at is null');
  },
};
