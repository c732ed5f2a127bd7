import { isGrpcServiceError } from '@temporalio/client';
import proto from '@temporalio/proto';
import type { TemporalConnection } from './connection.ts';

const { VersionDrainageStatus } = proto.temporal.api.enums.v1;
/**
 * Timeout of RPCs that manage worker versions. Temporal runs them as system workflows, which take seconds under load.
 */
const TIMEOUT_MS = 30_000;
const notFound = 5;
const failedPrecondition = 9;

export type WorkerVersion = {
  buildId: string;
  /** Temporal sends new runs to the `current` version, except for a share that it sends to the `ramping` version. */
  role: 'current' | 'ramping' | 'other';
  percent: number | null;
  /** True if no open run is pinned to this version; null if the version was never the current one. */
  isDrained: boolean | null;
};

export class WorkerPromotionRefused extends Error {
  override readonly name = 'WorkerPromotionRefused';
}

export function createWorkerVersions({ client, namespace, call }: TemporalConnection, deploymentName: string) {
  const { workflowService } = client;
  const of = { namespace, deploymentName, identity: client.options.identity };

  /** Returns null until the first worker of the deployment has polled. */
  async function describe() {
    try {
      return await call(() => workflowService.describeWorkerDeployment({ namespace, deploymentName }), TIMEOUT_MS);
    } catch (error) {
      if (isGrpcServiceError(error) && error.code === notFound) return null;
      throw error;
    }
  }

  const change = (work: () => Promise<unknown>): Promise<unknown> =>
    call(work, TIMEOUT_MS).catch((error: unknown) => {
      if (!isGrpcServiceError(error) || ![notFound, failedPrecondition].includes(error.code)) throw error;
      throw new WorkerPromotionRefused(error.details);
    });

  return {
    async list(): Promise<WorkerVersion[]> {
      const info = (await describe())?.workerDeploymentInfo;
      const routing = info?.routingConfig;
      return (info?.versionSummaries ?? []).map(({ deploymentVersion, drainageInfo }) => {
        const buildId = deploymentVersion?.buildId ?? '';
        const isRamping = routing?.rampingDeploymentVersion?.buildId === buildId;
        const isCurrent = routing?.currentDeploymentVersion?.buildId === buildId;
        const status = drainageInfo?.status ?? VersionDrainageStatus.VERSION_DRAINAGE_STATUS_UNSPECIFIED;
        const isUnused = status === VersionDrainageStatus.VERSION_DRAINAGE_STATUS_UNSPECIFIED;
        return {
          buildId,
          role: isCurrent ? 'current' : isRamping ? 'ramping' : 'other',
          percent: isRamping ? (routing?.rampingVersionPercentage ?? 0) : null,
          isDrained: isUnused ? null : status === VersionDrainageStatus.VERSION_DRAINAGE_STATUS_DRAINED,
        };
      });
    },

    /**
     * Makes this version the current one, which gets new runs and open runs that are not pinned. Throws
     * WorkerPromotionRefused if the version lacks workers for a task queue.
     */
    async promote(buildId: string): Promise<void> {
      await change(() => workflowService.setWorkerDeploymentCurrentVersion({ ...of, buildId }));
    },

    /** Like {@link promote}, but moves only a percentage of runs to the version. */
    async ramp(buildId: string, percentage: number): Promise<void> {
      await change(() => workflowService.setWorkerDeploymentRampingVersion({ ...of, buildId, percentage }));
    },

    /** Like {@link promote}, but has no effect if the deployment has or had a current version. */
    async promoteFirst(buildId: string): Promise<'promoted' | 'waiting' | 'current' | 'not_there_yet'> {
      const { workerDeploymentInfo: info, conflictToken = null } = (await describe()) ?? {};
      const { currentDeploymentVersion: current, currentVersionChangedTime } = info?.routingConfig ?? {};
      if (current) return current.buildId === buildId ? 'current' : 'waiting';
      // Does not promote this version, because an operator has unset the current version so that unversioned workers
      // get the work.
      if (currentVersionChangedTime) return 'waiting';
      const isThere = info?.versionSummaries?.some(({ deploymentVersion }) => deploymentVersion?.buildId === buildId);
      if (!isThere) return 'not_there_yet';
      try {
        // With the conflict token, only one of several workers that start at the same time can promote its version.
        await change(() => workflowService.setWorkerDeploymentCurrentVersion({ ...of, buildId, conflictToken }));
        return 'promoted';
      } catch (error) {
        if (error instanceof WorkerPromotionRefused) return 'not_there_yet';
        throw error;
      }
    },
  };
}
