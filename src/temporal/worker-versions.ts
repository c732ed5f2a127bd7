import { isGrpcServiceError } from '@temporalio/client';
import proto from '@temporalio/proto';
import type { TemporalConnection } from './connection.ts';

const { VersionDrainageStatus } = proto.temporal.api.enums.v1;
/** The server keeps versions by workflows of its own, which take seconds where it is busy; nobody's request waits. */
const TIMEOUT_MS = 30_000;
const notFound = 5;
const failedPrecondition = 9;

export type WorkerVersion = {
  buildId: string;
  /** What begins now goes to the current one, but for the share of the ramping one. */
  role: 'current' | 'ramping' | 'other';
  /** Of what begins now, where it is ramping. */
  percent: number | null;
  /** Of one that gets nothing new: whether runs that are pinned to it are still open. Null: it was never used. */
  isDrained: boolean | null;
};

/** The engine refuses it, in words for an operator. */
export class PromotionRefused extends Error {
  override readonly name = 'PromotionRefused';
}

/** The versions of the workers of a deployment, and which of them gets the work. */
export function createWorkerVersions({ client, namespace, call }: TemporalConnection, deploymentName: string) {
  const { workflowService } = client;
  const of = { namespace, deploymentName, identity: client.options.identity };

  /** Null before the first of its workers has asked for work. */
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
      throw new PromotionRefused(error.details);
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
     * From now on what begins, and what is not pinned, goes to this version.
     * @throws PromotionRefused when it has no workers, or not for all task queues of the current one
     */
    async promote(buildId: string): Promise<void> {
      await change(() => workflowService.setWorkerDeploymentCurrentVersion({ ...of, buildId }));
    },

    /** As {@link promote}, for so many of a hundred runs. */
    async ramp(buildId: string, percentage: number): Promise<void> {
      await change(() => workflowService.setWorkerDeploymentRampingVersion({ ...of, buildId, percentage }));
    },

    /** As {@link promote}, where no operator ever had to decide. */
    async promoteFirst(buildId: string): Promise<'promoted' | 'waiting' | 'current' | 'not_there_yet'> {
      const { workerDeploymentInfo: info, conflictToken = null } = (await describe()) ?? {};
      const { currentDeploymentVersion: current, currentVersionChangedTime } = info?.routingConfig ?? {};
      if (current) return current.buildId === buildId ? 'current' : 'waiting';
      // Somebody has given the work back to workers without versions.
      if (currentVersionChangedTime) return 'waiting';
      const isThere = info?.versionSummaries?.some(({ deploymentVersion }) => deploymentVersion?.buildId === buildId);
      if (!isThere) return 'not_there_yet';
      try {
        // Of several that begin together one is the first.
        await change(() => workflowService.setWorkerDeploymentCurrentVersion({ ...of, buildId, conflictToken }));
        return 'promoted';
      } catch (error) {
        if (error instanceof PromotionRefused) return 'not_there_yet';
        throw error;
      }
    },
  };
}
