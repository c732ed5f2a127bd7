import { proxyActivities } from '@temporalio/workflow';
import type { ConnectorActivities } from '#activities/connectors.ts';
import type { QueueSyncInput, QueueSyncResult } from '#src/contracts/connectors.ts';
import { quick } from './policies.ts';
import { showProgress } from './visibility.ts';

const { queueSyncOfConnection } = proxyActivities<ConnectorActivities>(quick);

/** Started by the schedule of a connection: queues the sync job unless it is open or the sync is disabled. */
export async function queueSync(input: QueueSyncInput): Promise<QueueSyncResult> {
  const result = await queueSyncOfConnection(input);
  showProgress(result.jobId === null ? `No sync was queued: ${result.reason}` : `Queued the job \`${result.jobId}\`.`);
  return result;
}
