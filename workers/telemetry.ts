import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { ApplicationFailureCategory } from '@temporalio/common';
import { DefaultLogger, type InjectedSinks, type LogEntry, Runtime } from '@temporalio/worker';
import type { Logger } from 'pino';
import type { Container } from '#src/container.ts';
import { parseJobId } from '#src/contracts/workflow-ids.ts';
import { workflowTraceSinkName } from '#src/contracts/workflow-runs.ts';
import { isErrorCode } from '#src/errors.ts';
import type { TraceSinks } from '../workflows/interceptors/trace.ts';

/** Sends the log of the Temporal SDK to our logger. Leaves signals to `main.ts`, which stops the process in order. */
export function installTemporalRuntime(logger: Logger, metricsAddress?: string): void {
  Runtime.install({
    shutdownSignals: [],
    logger: new DefaultLogger('WARN', (entry) => writeTemporalSdkLog(logger, entry)),
    ...(metricsAddress !== undefined && {
      telemetryOptions: {
        metrics: {
          prometheus: {
            bindAddress: metricsAddress,
            countersTotalSuffix: true,
            unitSuffix: true,
            useSecondsForDurations: true,
          },
        },
      },
    }),
  });
}

/**
 * Logs an error of the catalogue by its code and reason, without a stack. One that a user's file caused has the level
 * info, because an operator cannot do anything about it.
 */
export function writeTemporalSdkLog(logger: Logger, { level, message, meta }: LogEntry): void {
  const { error, ...where } = meta ?? {};
  const failure = expectedFailure(error);
  const logged = failure === null ? { ...where, err: error } : { ...where, code: failure.code, reason: failure.reason };
  if (failure?.isBenign) logger.info(logged, message);
  else if (level === 'ERROR') logger.error(logged, message);
  else logger.warn(logged, message);
}

/**
 * Finds the innermost failure with a code of the catalogue. Compares fields instead of using `instanceof`, because the
 * workflow sandbox has its own error classes.
 */
function expectedFailure(error: unknown): { code: string; reason: unknown; isBenign: boolean } | null {
  if (typeof error !== 'object' || error === null) return null;
  const inner = 'cause' in error ? expectedFailure(error.cause) : null;
  const code = 'type' in error && typeof error.type === 'string' && isErrorCode(error.type) ? error.type : undefined;
  if (inner !== null || code === undefined || code === 'internal_error') return inner;
  const isBenign = 'category' in error && error.category === ApplicationFailureCategory.BENIGN;
  return { code, reason: 'message' in error ? error.message : undefined, isBenign };
}

type SdkMetrics = {
  bindAddress: string;
  read(): Promise<string>;
};

/**
 * Reads the Temporal SDK's metrics for the worker's metrics page. The SDK offers them only over HTTP on a port of its
 * own.
 */
export async function createTemporalSdkMetricsSource(): Promise<SdkMetrics> {
  let port = randomPort();
  while (!(await isFree(port))) port = randomPort();
  return {
    bindAddress: `127.0.0.1:${port}`,
    async read() {
      const response = await fetch(`http://127.0.0.1:${port}/metrics`, { signal: AbortSignal.timeout(2_000) });
      return response.text();
    },
  };
}

/**
 * Chooses a port below the ephemeral range, because the operating system could give an ephemeral port to an outgoing
 * connection before the SDK uses it.
 */
function randomPort(): number {
  return randomInt(12_000, 32_768);
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  try {
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
    return true;
  } catch {
    return false;
  } finally {
    server.close();
  }
}

export function createTraceSinks({ tracing }: Container['telemetry']): InjectedSinks<TraceSinks> {
  return {
    [workflowTraceSinkName]: {
      ended: {
        fn({ workflowId, runId, taskQueue }, { workflowType, ...span }) {
          tracing.record({
            ...span,
            name: `RunWorkflow ${workflowType}`,
            kind: 'consumer',
            attributes: {
              'acs.job_id': parseJobId(workflowId).workflowId,
              'temporal.workflow_id': workflowId,
              'temporal.run_id': runId,
              'messaging.destination.name': taskQueue,
            },
          });
        },
        callDuringReplay: false,
      },
    },
  };
}

/** Scrapes within this time share one reading of the gauges: two SQL statements and twenty Temporal RPCs. */
const READ_EVERY_MS = 15_000;

/**
 * Registers job gauges. Every worker reports the same values for the whole deployment: aggregate with the maximum, not
 * the sum.
 */
export function registerJobGauges({ jobs, orchestrator, telemetry }: Container): void {
  const { metrics } = telemetry;
  let read: ReturnType<typeof jobs.statistics> | undefined;
  let readAgainMs = 0;
  const statistics = () => {
    if (read === undefined || performance.now() >= readAgainMs) {
      readAgainMs = performance.now() + READ_EVERY_MS;
      read = jobs.statistics();
      read.catch(() => {
        read = undefined;
      });
    }
    return read;
  };

  metrics.gauge('acs_jobs_open', async () => {
    const totals = new Map<string, { labels: { kind: string; status: string }; value: number }>();
    for (const { kind, status, count } of (await statistics()).open) {
      const key = `${kind} ${status}`;
      totals.set(key, { labels: { kind, status }, value: (totals.get(key)?.value ?? 0) + count });
    }
    return [...totals.values()];
  });
  metrics.gauge('acs_jobs_parked', async () =>
    (await statistics()).open.flatMap(({ kind, status, errorCode, count }) =>
      status === 'parked' ? [{ labels: { kind, code: errorCode ?? 'unknown' }, value: count }] : [],
    ),
  );
  metrics.gauge('acs_outbox_waiting', async () => [{ labels: {}, value: (await statistics()).outbox.waiting }]);
  metrics.gauge('acs_outbox_oldest_seconds', async () => [
    { labels: {}, value: (await statistics()).outbox.oldestSeconds },
  ]);
  metrics.gauge(
    'acs_task_queue_backlog',
    async () => (await orchestrator.backlog()).map(({ count, ...labels }) => ({ labels, value: count })),
    READ_EVERY_MS,
  );
}
