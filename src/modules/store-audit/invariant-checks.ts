import { chunksMatchPoints } from './invariants/chunks-match-points.ts';
import { jobsMove } from './invariants/jobs-move.ts';
import { nothingIsOrphaned } from './invariants/nothing-is-orphaned.ts';
import { roundsAreContiguous } from './invariants/rounds-are-contiguous.ts';
import { scoresRefold } from './invariants/scores-refold.ts';
import { uploadsEnd } from './invariants/uploads-end.ts';
import { versionChainsAreLinear } from './invariants/version-chains-are-linear.ts';
import type { InvariantCheck, InvariantDeps, InvariantReport, Patience, Violation } from './invariants.model.ts';

const VIOLATIONS_KEPT = 20;

const checks: InvariantCheck[] = [
  uploadsEnd,
  chunksMatchPoints,
  nothingIsOrphaned,
  roundsAreContiguous,
  scoresRefold,
  versionChainsAreLinear,
  jobsMove,
];

const usualPatience: Patience = { orphanSeconds: 60, reconcileSeconds: 60, dispatchSeconds: 3 };

export type InvariantChecks = ReturnType<typeof createInvariantChecks>;

/** What holds at any time, whatever failed before. Reads only, in bounded memory. */
export function createInvariantChecks(deps: InvariantDeps) {
  async function run({ invariant, title, run }: InvariantCheck, patience: Patience): Promise<InvariantReport> {
    const first: Violation[] = [];
    let violations = 0;
    const checked = await run(deps, patience, (violation) => {
      violations += 1;
      if (first.length < VIOLATIONS_KEPT) first.push({ invariant, ...violation });
    });
    return { invariant, title, isChecked: true, checked, violations, first };
  }

  async function report(patience: Partial<Patience> = {}): Promise<InvariantReport[]> {
    const reports: InvariantReport[] = [];
    for (const check of checks) reports.push(await run(check, { ...usualPatience, ...patience }));
    return reports;
  }

  return {
    /** One entry an invariant, in order. */
    report,

    /** The first violations of each invariant; none when all is well. */
    async check(patience: Partial<Patience> = {}): Promise<Violation[]> {
      return (await report(patience)).flatMap((entry) => (entry.isChecked ? entry.first : []));
    },
  };
}
