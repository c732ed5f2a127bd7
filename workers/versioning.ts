import { setTimeout as delay } from 'node:timers/promises';
import type { WorkerOptions } from '@temporalio/worker';
import type { Logger } from 'pino';
import type { TemporalConfig } from '#src/config.ts';
import type { TaskQueue } from '#src/contracts/task-queues.ts';
import type { TemporalConnection } from '#src/temporal/connection.ts';
import { createWorkerVersions } from '#src/temporal/worker-versions.ts';
import { workflowsVersion } from './bundle.ts';

const ASK_INTERVAL_MS = 1_000;

/** Which version of which deployment this process is; null where there are no versions. */
export async function workerVersion({ deployment }: Pick<TemporalConfig, 'deployment'>) {
  if (deployment === null) return null;
  return { deploymentName: deployment.name, buildId: deployment.buildId ?? (await workflowsVersion()) };
}

type WorkerVersion = Awaited<ReturnType<typeof workerVersion>>;

/**
 * What becomes of a run when another version is made the current one. All code replays what others have begun, so that
 * either would be right; the question is how long the workers before it have to be kept. It is said of a queue, since
 * what a workflow says itself is refused of workers that have no version.
 */
const behaviors: Record<TaskQueue, 'PINNED' | 'AUTO_UPGRADE'> = {
  // They end by themselves within hours, and never wait for a person: the workers that began them can be waited for.
  // What one evaluation says is of one version.
  evaluation: 'PINNED',
  'store-audit': 'PINNED',
  // They wait for a person when only he can mend something, for days perhaps.
  ingestion: 'AUTO_UPGRADE',
  deletion: 'AUTO_UPGRADE',
  previews: 'AUTO_UPGRADE',
  anchoring: 'AUTO_UPGRADE',
  connectors: 'AUTO_UPGRADE',
  exports: 'AUTO_UPGRADE',
  // A month until what somebody has left is erased; days for an organization of many documents.
  erasure: 'AUTO_UPGRADE',
  reembedding: 'AUTO_UPGRADE',
  // As long as rounds come.
  alignment: 'AUTO_UPGRADE',
};

export function versioningOptions(
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

/**
 * Makes the first version of a deployment the current one, which no operator has to do then. Ends when the deployment
 * has one, whichever that is.
 */
export async function becomeFirstVersion(
  temporal: TemporalConnection,
  version: WorkerVersion,
  { stop, logger }: { stop: AbortSignal; logger: Logger },
): Promise<void> {
  if (version === null) return;
  const versions = createWorkerVersions(temporal, version.deploymentName);
  while (!stop.aborted) {
    try {
      const outcome = await versions.promoteFirst(version.buildId);
      if (outcome === 'promoted') logger.info(version, 'this is the first version of the workers, and the current one');
      if (outcome === 'waiting') {
        logger.info(version, 'this version of the workers gets work when an operator promotes it, or pinned runs');
      }
      if (outcome !== 'not_there_yet') return;
    } catch (error) {
      logger.warn({ err: error }, 'the versions of the workers could not be looked up');
    }
    await delay(ASK_INTERVAL_MS, undefined, { signal: stop }).catch(() => undefined);
  }
}
