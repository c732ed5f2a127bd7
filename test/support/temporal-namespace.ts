import { Connection } from '@temporalio/client';
import { msToTs } from '@temporalio/common/lib/time.js';
import { v7 as uuidv7 } from 'uuid';
import { until } from './until.ts';

const RETENTION = '1 day';

/** A namespace of its own: task queues and workflow ids of two test runs on one server never meet. */
export async function createTestNamespace(address: string): Promise<string> {
  const namespace = `test-${uuidv7()}`;
  const connection = await Connection.connect({ address });
  try {
    await connection.workflowService.registerNamespace({
      namespace,
      workflowExecutionRetentionPeriod: msToTs(RETENTION),
    });
    const count = () => connection.workflowService.countWorkflowExecutions({ namespace });
    await until(`the namespace ${namespace} answers`, () => count().catch(() => null));
    return namespace;
  } finally {
    await connection.close();
  }
}
