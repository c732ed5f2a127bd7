import { setTimeout as delay } from 'node:timers/promises';
import type { WorkerOptions } from '@temporalio/worker';
import type { Logger } from 'pino';
import type { TemporalConfig } from '#src/config.ts';
import type { TaskQueue } from '#src/contracts/workflow-runs.ts';
import type { TemporalConnection } from '#src/temporal/connection.ts';
import { createWorkerVersions } from '#src/temporal/worker-versions.ts';
import { workflowCodeVersion } from './bundle.ts';

const ASK_INTERVAL_MS = 1_000;

/** Deployment name and build id of this worker process; null if worker versioning is off. */
export async function readWorkerVersion({ deployment }: Pick<TemporalConfig, 'deployment'>) {
  if (deployment === null) return null;
  return { deploymentName: deployment.name, buildId: deployment.buildId ?? (await workflowCodeVersion()) };
}

type WorkerVersion = Awaited<ReturnType<typeof readWorkerVersion>>;

/**
 * Versioning behavior of the runs on each queue. PINNED runs end on the worker version that started them, so its
 * workers must stay until then; AUTO_UPGRADE runs move to new versions, which can replay older histories. The behavior
 * is not set in workflow code, because Temporal rejects it there for unversioned workers.
 */
const behaviors: Record<TaskQueue, 'PINNED' | 'AUTO_UPGRADE'> = {
  // Evaluations and audits end within hours and never wait for an operator, so old workers can be kept. PINNED also
  // makes sure that a whole evaluation runs on one version.
  evaluation: 'PINNED',
  'store-audit': 'PINNED',
  // Runs on these queues may be parked for days until an operator acts, too long to keep old workers.
  ingestion: 'AUTO_UPGRADE',
  deletion: 'AUTO_UPGRADE',
  previews: 'AUTO_UPGRADE',
  anchoring: 'AUTO_UPGRADE',
  connectors: 'AUTO_UPGRADE',
  exports: 'AUTO_UPGRADE',
  // An erasure waits a month, and re-embedding a large organization takes days: too long to keep old workers.
  erasure: 'AUTO_UPGRADE',
  reembedding: 'AUTO_UPGRADE',
  // The alignment run of a chat lasts as long as the chat gets new rounds.
  alignment: 'AUTO_UPGRADE',
};

export function workerVersioningOptions(
  version: WorkerVersion,
  taskQueue: TaskQueue,
): Pick<WorkerOptions, 'workerDeploymentOptions'> {
  if (version === null) return {};
  return {
    workerDeploymentOptions: {
      version,
      useWorkerVersioning: true,
      defaultVersioningBehavior: behaviors[taskQueue],
    },
  };
}

export async function promoteFirstWorkerVersion(
  temporal: TemporalConnection,
  version: WorkerVersion,
  { stop, logger }: { stop: AbortSignal; logger: Logger },
): Promise<void> {
  if (version === null) return;
  const versions = createWorkerVersions(temporal, version.deploymentName);
  while (!stop.aborted) {
    try {
      const outcome = await versions.promoteFirst(version.buildId);
      if (outcome === 'promoted') logger.info(version, 'made the first worker version the current one');
      if (outcome === 'waiting') {
        logger.info(
          version,
          'this worker version is not current: it only gets pinned runs until an operator promotes it',
        );
      }
      if (outcome !== 'not_there_yet') return;
    } catch (error) {
      logger.warn({ err: error }, 'cannot read the worker versions from Temporal');
    }
    await delay(ASK_INTERVAL_MS, undefined, { signal: stop }).catch(() => undefined);
  }
}
