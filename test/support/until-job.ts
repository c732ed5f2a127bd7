import { parseJobId } from '#src/contracts/workflow-ids.ts';
import type { ApiClient } from './client.ts';
import { until } from './until.ts';

export type JobView = {
  id: string;
  status: string;
  stage: string | null;
  last_error: { code: string; message: string } | null;
};

const FINAL = ['succeeded', 'failed', 'cancelled'];

/** Follows a job, or a part of one, to its end, and fails when it ends otherwise than expected. */
export async function untilJob(client: ApiClient, jobId: string, status: string): Promise<JobView> {
  return until(`job ${jobId} has ${status}`, async () => {
    const job = (await client.get(`/jobs/${jobId}`, 200)).body as JobView;
    if (job.status === status) return job;
    if (FINAL.includes(job.status))
      throw new Error(`job ${jobId} has ${job.status}: ${JSON.stringify(job.last_error)}`);
    return null;
  });
}

/** Follows the whole run that a job id, or the id of one of its parts, belongs to: its parts succeed one by one before. */
export function untilRun(client: ApiClient, jobId: string, status: string): Promise<JobView> {
  return untilJob(client, parseJobId(jobId).workflowId, status);
}
