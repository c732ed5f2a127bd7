import { setTimeout as delay } from 'node:timers/promises';
import type { WorkerOptions } from '@temporalio/worker';
import type { Logger } from 'pino';
import type { TemporalConfig } from '#src/config.ts';
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
 * Runs move to new worker versions, which can replay older histories, because some are parked for days until an operator
 * acts: too long to keep old workers. Workflows that have to end on the version that started them set `PINNED`
 * themselves.
 */
export function workerVersioningOptions(version: WorkerVersion): Pick<WorkerOptions, 'workerDeploymentOptions'> {
  if (version === null) return {};
  return {
    workerDeploymentOptions: { version, useWorkerVersioning: true, defaultVersioningBehavior: 'AUTO_UPGRADE' },
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
