import { Connection } from '@temporalio/client';
import { msToTs } from '@temporalio/common/lib/time.js';
import pino, { type Logger } from 'pino';
import { v7 as uuidv7 } from 'uuid';
import { createTemporalConnection, type TemporalConnection } from '#src/temporal/connection.ts';
import { installTemporalRuntime } from '#workers/telemetry.ts';
import { until } from './until.ts';

/** Longer than in production, so that CPU contention does not fail tests. */
export const testCallTimeoutMs = 60_000;

export const connectToTemporal = (server: { address: string; namespace: string }): TemporalConnection =>
  createTemporalConnection({ ...server, callTimeoutMs: testCallTimeoutMs });

/** A namespace of its own, so that two test runs on one server share no task queue and no workflow id. */
export async function createTestNamespace(address: string): Promise<string> {
  const namespace = `test-${uuidv7()}`;
  const connection = await Connection.connect({ address });
  const { workflowService } = connection;
  await workflowService.registerNamespace({ namespace, workflowExecutionRetentionPeriod: msToTs('1 day') });
  const count = () => workflowService.countWorkflowExecutions({ namespace });
  await until(`the namespace ${namespace} answers`, () => count().catch(() => null));
  await connection.close();
  return namespace;
}

let isInstalled = false;

/** The Temporal SDK allows one runtime per process, so the first test that needs it installs it. */
export function installRuntimeOnce(logger: Logger = pino({ level: process.env.TEST_LOG_LEVEL ?? 'silent' })): void {
  if (!isInstalled) installTemporalRuntime(logger);
  isInstalled = true;
}
