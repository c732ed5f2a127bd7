import { chunksMatchPoints } from './invariants/chunks-match-points.ts';
import { conversationsAreSummed } from './invariants/conversations-are-summed.ts';
import { documentsAreCounted } from './invariants/documents-are-counted.ts';
import { evaluationsAddUp } from './invariants/evaluations-add-up.ts';
import { foldersShareTheirKeys } from './invariants/folders-share-their-keys.ts';
import { importsAddUp } from './invariants/imports-add-up.ts';
import { jobsMove } from './invariants/jobs-move.ts';
import { leaversAreErased } from './invariants/leavers-are-erased.ts';
import { nothingIsOrphaned } from './invariants/nothing-is-orphaned.ts';
import { organizationsHaveAdmins } from './invariants/organizations-have-admins.ts';
import { roundsAreContiguous } from './invariants/rounds-are-contiguous.ts';
import { scoresRefold } from './invariants/scores-refold.ts';
import { uploadsEnd } from './invariants/uploads-end.ts';
import { versionChainsAreLinear } from './invariants/version-chains-are-linear.ts';
import { wordsAreCounted } from './invariants/words-are-counted.ts';
import type {
  InvariantCheck,
  InvariantDeps,
  InvariantId,
  InvariantReport,
  Patience,
  Violation,
} from './invariants.model.ts';

const VIOLATIONS_KEPT = 20;

const checks: InvariantCheck[] = [
  uploadsEnd,
  chunksMatchPoints,
  wordsAreCounted,
  nothingIsOrphaned,
  roundsAreContiguous,
  scoresRefold,
  evaluationsAddUp,
  versionChainsAreLinear,
  jobsMove,
  leaversAreErased,
  organizationsHaveAdmins,
  foldersShareTheirKeys,
  documentsAreCounted,
  conversationsAreSummed,
  importsAddUp,
];

const usualPatience: Patience = { orphanSeconds: 60, reconcileSeconds: 60, dispatchSeconds: 3, erasureSeconds: 86_400 };

export type InvariantChecks = ReturnType<typeof createInvariantChecks>;

/** What holds at any time, whatever failed before. Reads only, in bounded memory. */
export function createInvariantChecks(deps: InvariantDeps) {
  async function run({ invariant, title, run }: InvariantCheck, patience: Patience): Promise<InvariantReport> {
    const first: Violation[] = [];
    let violations = 0;
    try {
      const checked = await run(deps, patience, (violation) => {
        violations += 1;
        if (first.length < VIOLATIONS_KEPT) first.push({ invariant, ...violation });
      });
      return { invariant, title, outcome: 'checked', checked, violations, first };
    } catch (error) {
      return { invariant, title, outcome: 'failed', error };
    }
  }

  async function* reports(patience: Partial<Patience> = {}): AsyncGenerator<InvariantReport> {
    for (const check of checks) yield await run(check, { ...usualPatience, ...patience });
  }

  return {
    /** One of each invariant, in order, as soon as it is known. */
    reports,

    /** The first violations of each invariant; none when all is well. Throws when one could not be checked. */
    async check(patience: Partial<Patience> = {}): Promise<Violation[]> {
      const found: Violation[] = [];
      for await (const report of reports(patience)) {
        if (report.outcome === 'failed') throw report.error;
        found.push(...report.first);
      }
      return found;
    },
  };
}

/** Those that cannot be told from what is stored, and how they are watched. */
export const otherInvariants = [
  { invariant: 'I3', reason: 'the content after a fault is compared with that of a run without one, by the tests' },
  { invariant: 'I9', reason: 'it is about answers: the tests look for the content of other organizations in them' },
  { invariant: 'I10', reason: 'it is about answers: the tests try the tokens of revoked sessions' },
  { invariant: 'I12', reason: 'it is about calls: the tests count those that the model server gets' },
] as const satisfies readonly { invariant: InvariantId; reason: string }[];
