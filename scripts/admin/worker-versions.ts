import type { Container } from '#src/container.ts';
import type { WorkerVersion } from '#src/temporal/worker-versions.ts';
import { StartFailure } from '../supervisor/start-failure.ts';
import { type Command, type CommandOutput, readFlags, unexpectedArguments, type WrongArguments } from './command.ts';

export const workerVersionsCommand: Command = {
  usage: '[--promote <build id> | --ramp <build id> --percent <0 to 100>]',
  description: 'lists the versions of the workers with the runs that they get, and routes runs to another version',
  examples: [
    ['', 'one line per version, with whether its workers can be stopped'],
    ['--ramp 2026-11-23 --percent 10', 'routes a tenth of the runs to this version'],
    ['--promote 2026-11-23', 'routes all runs to it that are not pinned to another; also used for a rollback'],
  ],
  read: (args) => {
    const routing = readRouting(args);
    return 'wrong' in routing ? routing : (container, { print }) => run(container, routing, print);
  },
};

/** `buildId` is null to list versions only; `percent` is null to promote a version. */
type Routing = { buildId: string | null; percent: number | null };

function readRouting(args: readonly string[]): Routing | WrongArguments {
  const read = readFlags(args, { promote: { type: 'string' }, ramp: { type: 'string' }, percent: { type: 'string' } });
  if ('wrong' in read) return read;
  const { promote, ramp, percent } = read.values;
  if (read.positionals.length > 0) return unexpectedArguments(read.positionals);
  if (promote !== undefined && ramp === undefined && percent === undefined) return { buildId: promote, percent: null };
  if (promote === undefined && ramp !== undefined && /^(\d{1,2}|100)$/.test(percent ?? '')) {
    return { buildId: ramp, percent: Number(percent) };
  }
  if (args.length === 0) return { buildId: null, percent: null };
  return { wrong: 'Use --promote <build id>, or --ramp <build id> with --percent 0 to 100' };
}

async function run(
  { config, temporal }: Pick<Container, 'config' | 'temporal'>,
  { buildId, percent }: Routing,
  print: CommandOutput['print'],
): Promise<boolean> {
  const { deployment } = config.temporal;
  if (deployment === null) {
    throw new StartFailure('The workers of this installation have no versions: TEMPORAL_DEPLOYMENT_NAME is not set.');
  }
  const { createWorkerVersions, WorkerPromotionRefused } = await import('#src/temporal/worker-versions.ts');
  const versions = createWorkerVersions(temporal, deployment.name);
  try {
    if (buildId !== null && percent === null) await versions.promote(buildId);
    else if (buildId !== null && percent !== null) await versions.ramp(buildId, percent);
  } catch (error) {
    if (!(error instanceof WorkerPromotionRefused)) throw error;
    throw new StartFailure(`No runs were routed to version ${buildId}: ${error.message}`);
  }
  const all = await versions.list();
  for (const version of all) print(lineOf(version));
  if (all.length === 0) print(`No worker of the deployment ${deployment.name} has polled yet.`);
  return true;
}

function lineOf({ buildId, role, percent, isDrained }: WorkerVersion): string {
  if (role === 'current') return `${buildId}  current: new runs, and runs that are not pinned`;
  if (role === 'ramping') return `${buildId}  ramping: ${percent} % of the runs`;
  if (isDrained === null) return `${buildId}  inactive: it has had no runs yet`;
  return isDrained ? `${buildId}  drained: its workers can be stopped` : `${buildId}  draining: runs are pinned to it`;
}
