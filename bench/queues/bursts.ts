import { seededRandom } from '../search/random.ts';
import { type Arrival, type Order, type Served, simulate } from './simulation.ts';

export type Burst = { documents: number; slotSeconds: number; priority: number };

const organizations = 1_000;
/** Twelve worker processes with four slots each. */
const ingestionSlots = 48;
/** Time for which a small document holds a slot, on average. */
const slotSeconds = 1;
/** Share of the slots that the other organizations use. */
const utilization = 0.5;
/** Two worker processes, each with one thread that runs workflow code. */
const workflowThreads = 2;
const workflowTaskSeconds = 0.01;
const burstAt = 60;
const seed = 7;
const burstKey = 'burst';

/**
 * Simulates the queues `workflows` and `ingestion`, one after the other, for an hour with a burst after a minute.
 * @returns documents of other organizations that arrive while the free slots could do the work of the burst; `at` counts
 * from the burst
 */
export function simulateBurst(burst: Burst, order: Order): { others: Served[]; burstSeconds: number } {
  const arrivals = createArrivals(burst);
  const workflows = simulate(arrivals, {
    ...{ slots: workflowThreads, order, seed },
    serviceSeconds: () => workflowTaskSeconds,
  });
  const random = seededRandom(seed + 1);
  const toIngest = workflows.map(({ doneAt, at, ...rest }) => ({ ...rest, at: doneAt, uploadedAt: at }));
  const ingested = simulate(
    toIngest.toSorted((a, b) => a.at - b.at),
    {
      ...{ slots: ingestionSlots, order, seed },
      serviceSeconds: ({ key }) => (key === burstKey ? burst.slotSeconds : slotSeconds) * spread(random),
    },
  );
  const ofBurst = ingested.filter(({ key }) => key === burstKey);
  const burstEnd = Math.max(...ofBurst.map(({ doneAt }) => doneAt));
  // Whatever the order, the queue is long for this time: no slot is free while a document waits.
  const windowSeconds = (burst.documents * burst.slotSeconds) / (ingestionSlots * (1 - utilization));
  const others = ingested
    .filter(({ key, uploadedAt }) => key !== burstKey && uploadedAt >= burstAt)
    .filter(({ uploadedAt }) => uploadedAt < burstAt + windowSeconds)
    .map(({ uploadedAt, at, waited, ...rest }) => ({
      ...rest,
      at: uploadedAt - burstAt,
      // Without the work itself: the time until a worker began, less the step of the workflow.
      waited: at + waited - uploadedAt - workflowTaskSeconds,
    }));
  return { others, burstSeconds: burstEnd - burstAt };
}

/** Two organizations upload as much at once beside the others. @returns when the last document of each is done */
export function simulateTwoBursts({ documents, weight }: { documents: number; weight: number }): number[] {
  const keys = ['first', 'second'];
  const bursts = Array.from({ length: documents }, () => keys.map((key) => ({ at: burstAt, key, priority: 2 })));
  const arrivals = [...createArrivals({ documents: 0, slotSeconds, priority: 2 }), ...bursts.flat()];
  const random = seededRandom(seed + 1);
  const done = simulate(
    arrivals.toSorted((a, b) => a.at - b.at),
    {
      ...{ slots: ingestionSlots, seed },
      order: { kind: 'fair', weightOf: (key) => (key === 'first' ? weight : 1) },
      serviceSeconds: () => slotSeconds * spread(random),
    },
  );
  return keys.map((wanted) => Math.max(...done.flatMap(({ key, doneAt }) => (key === wanted ? doneAt : []))) - burstAt);
}

function createArrivals({ documents, priority }: Burst): Arrival[] {
  const random = seededRandom(seed);
  const perSecond = (utilization * ingestionSlots) / slotSeconds;
  const arrivals: Arrival[] = [];
  for (let at = 0; at < 3_600; at += -Math.log(1 - random.next()) / perSecond)
    arrivals.push({ at, key: `organization-${1 + random.below(organizations - 1)}`, priority: 2 });
  const burst = Array.from({ length: documents }, () => ({ at: burstAt, key: burstKey, priority }));
  return [...arrivals, ...burst].toSorted((a, b) => a.at - b.at);
}

/** A log-normal factor with the mean 1: most documents are small, some take several times as long. */
function spread(random: { normal(): number }): number {
  const sigma = 0.6;
  return Math.exp(sigma * random.normal() - sigma ** 2 / 2);
}
