import { parseJobId } from '#src/contracts/workflow-ids.ts';
import type { JobDto } from '#src/modules/jobs/jobs.schema.ts';
import type { ApiClient } from './client.ts';
import { until } from './until.ts';

export type JobView = Pick<JobDto, 'id' | 'status' | 'stage' | 'last_error'>;

/** Waits for the end of a job, or of a part, and fails if its status is another than expected. */
export async function untilJob(client: ApiClient, jobId: string, status: string): Promise<JobView> {
  return until(`job ${jobId} has ${status}`, async () => {
    const job = (await client.get(`/jobs/${jobId}`, 200)).body as JobView;
    if (job.status === status) return job;
    if (['succeeded', 'failed', 'cancelled'].includes(job.status))
      throw new Error(`job ${jobId} has ${job.status}: ${JSON.stringify(job.last_error)}`);
    return null;
  });
}

/** Waits for the end of the whole run, given its job id or the id of one of its parts. */
export const untilRun = (client: ApiClient, jobId: string, status: string): Promise<JobView> =>
  untilJob(client, parseJobId(jobId).workflowId, status);
