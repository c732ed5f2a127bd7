import type { Container } from '#src/container.ts';
import { createWorkerVersions, PromotionRefused, type WorkerVersion } from '#src/temporal/worker-versions.ts';
import { StartFailure } from '../supervisor/start-failure.ts';
import type { Say } from './command.ts';
import type { VersionWish } from './version-wish.ts';

/** Gives work to a version of the workers where that is wished, and tells which version gets what. */
export async function workerVersions(
  { config, temporal }: Pick<Container, 'config' | 'temporal'>,
  wish: VersionWish,
  { print }: Pick<Say, 'print'>,
): Promise<boolean> {
  const { deployment } = config.temporal;
  if (deployment === null) {
    throw new StartFailure('The workers of this installation have no versions: TEMPORAL_DEPLOYMENT_NAME is not set.');
  }
  const versions = createWorkerVersions(temporal, deployment.name);
  try {
    if (wish?.percent === null) await versions.promote(wish.buildId);
    else if (wish !== undefined) await versions.ramp(wish.buildId, wish.percent);
  } catch (error) {
    if (!(error instanceof PromotionRefused)) throw error;
    throw new StartFailure(`The version ${wish?.buildId} gets no work: ${error.message}`);
  }
  const all = await versions.list();
  for (const version of all) print(lineOf(version));
  if (all.length === 0) print(`No worker of the deployment ${deployment.name} has asked for work yet.`);
  return true;
}

function lineOf({ buildId, role, percent, isDrained }: WorkerVersion): string {
  if (role === 'current') return `${buildId}  current: what begins, and what is not pinned`;
  if (role === 'ramping') return `${buildId}  ramping: ${percent} of a hundred runs`;
  if (isDrained === null) return `${buildId}  waiting: it has had no work yet`;
  return isDrained ? `${buildId}  drained: its workers can go` : `${buildId}  draining: runs are pinned to it`;
}
