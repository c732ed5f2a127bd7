import { boolean } from '#src/adapters/postgres/columns.ts';
import { pick, shape } from '#src/adapters/postgres/shapes.ts';
import { JobModel } from '#src/modules/jobs/jobs.model.ts';
import type { InvariantCheck } from '../invariants.model.ts';
import { countRows, pagesOf } from './rows.ts';

/** Each attempt at a step shows in its job: only what nobody tries is silent for so long, and wants looking after. */
const LONGEST_SILENCE_HOURS = 48;

const forgottenJob = shape({ ...pick(JobModel, 'id', 'orgId', 'documentId').columns, isWaiting: boolean() });

const forgottenJobs = `
  select id, org_id, document_id, dispatched_at is null as is_waiting
  from jobs
  where id > :after and finished_at is null and (
    (dispatched_at is null and greatest(updated_at, checked_at) < now() - make_interval(secs => :dispatchSeconds))
    or (
      -- Somebody has paused it, or it waits for its day, and knows how long.
      status in ('queued', 'running') and coalesce(stage, '') not in ('paused', 'wait')
      and greatest(updated_at, dispatched_at) < now() - make_interval(hours => :longestSilenceHours)
    )
  )`;

/** I11: no work is forgotten. */
export const jobsMove: InvariantCheck = {
  invariant: 'I11',
  title: 'no job waits to be started, and none that runs is silent for longer than it may be',
  async run({ db }, { dispatchSeconds }, found) {
    const values = { after: '', dispatchSeconds, longestSilenceHours: LONGEST_SILENCE_HOURS };
    for await (const jobs of pagesOf(db, forgottenJob, forgottenJobs, values)) {
      for (const { id, orgId, documentId, isWaiting } of jobs) {
        const detail = isWaiting ? 'was never started' : `has said nothing for over ${LONGEST_SILENCE_HOURS} hours`;
        found({ orgId, detail: `Job ${id} ${detail}.`, ...(documentId !== null && { documentId }) });
      }
    }
    return countRows(db, 'jobs', 'finished_at is null');
  },
};
