import { setTimeout as delay } from 'node:timers/promises';
import { Connection } from '@temporalio/client';
import { msToTs } from '@temporalio/common/lib/time.js';
import { v7 as uuidv7 } from 'uuid';

const RETENTION = '1 day';
const READY_TIMEOUT_MS = 20_000;

/** A namespace of its own: task queues and workflow ids of two test runs on one server never meet. */
export async function createTestNamespace(address: string): Promise<string> {
  const namespace = `test-${uuidv7()}`;
  const connection = await Connection.connect({ address });
  try {
    await connection.workflowService.registerNamespace({
      namespace,
      workflowExecutionRetentionPeriod: msToTs(RETENTION),
    });
    const deadline = Date.now() + READY_TIMEOUT_MS;
    for (;;) {
      try {
        await connection.workflowService.countWorkflowExecutions({ namespace });
        return namespace;
      } catch (error) {
        if (Date.now() > deadline) throw error;
        await delay(50);
      }
    }
  } finally {
    await connection.close();
  }
}
