import { proxyActivities } from '@temporalio/workflow';
import type { ConnectorActivities } from '#activities/connectors.ts';
import type { QueueSyncInput, QueueSyncResult } from '#src/contracts/connectors.ts';
import { quick } from './policies.ts';
import { showProgress } from './visibility.ts';

const { queueSyncOfConnection } = proxyActivities<ConnectorActivities>(quick);

/** What the schedule of a connection starts: has it synced by its job, unless there is no need or it is under way. */
export async function queueSync(input: QueueSyncInput): Promise<QueueSyncResult> {
  const result = await queueSyncOfConnection(input);
  showProgress(result.jobId === null ? `Nothing was begun: ${result.reason}` : `The run is \`${result.jobId}\`.`);
  return result;
}
