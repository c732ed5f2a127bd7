import { deletedAccountsAreErased, organizationsHaveAdmins } from './invariants/accounts.ts';
import { alignmentStatesFollowFromScores, chatLogsMatchRounds, roundsAreContiguous } from './invariants/chats.ts';
import {
  accessKeysFollowFolders,
  documentTotalsMatchDocuments,
  importCountsMatchFiles,
} from './invariants/documents.ts';
import { evaluationResultsFollowFromJudgements, versionChainsAreLinear } from './invariants/drafts.ts';
import {
  chunksMatchVectors,
  noDataIsOrphaned,
  noJobIsStuck,
  termCountsMatchChunks,
  uploadsReachAnEnd,
} from './invariants/ingestion.ts';
import type {
  InvariantCheck,
  InvariantDeps,
  InvariantGracePeriods,
  InvariantId,
  InvariantViolation,
} from './invariants/invariant.ts';

export type { InvariantViolation };

const invariantChecks: InvariantCheck[] = [
  uploadsReachAnEnd,
  chunksMatchVectors,
  termCountsMatchChunks,
  noDataIsOrphaned,
  roundsAreContiguous,
  alignmentStatesFollowFromScores,
  evaluationResultsFollowFromJudgements,
  versionChainsAreLinear,
  noJobIsStuck,
  deletedAccountsAreErased,
  organizationsHaveAdmins,
  accessKeysFollowFolders,
  documentTotalsMatchDocuments,
  chatLogsMatchRounds,
  importCountsMatchFiles,
];

/** Result of checking one invariant. `first` holds at most 20 violations, to bound the memory. */
export type InvariantReport = { invariant: InvariantId; title: string } & (
  | { outcome: 'checked'; checked: number; violations: number; first: InvariantViolation[] }
  | { outcome: 'failed'; error: unknown }
);

const VIOLATIONS_KEPT = 20;

const defaultGrace: InvariantGracePeriods = {
  orphanSeconds: 60,
  reconcileSeconds: 60,
  dispatchSeconds: 3,
  erasureSeconds: 86_400,
};

export type InvariantChecks = ReturnType<typeof createInvariantChecks>;

export function createInvariantChecks(deps: InvariantDeps) {
  async function runCheck(
    { invariant, title, run }: InvariantCheck,
    grace: InvariantGracePeriods,
  ): Promise<InvariantReport> {
    const first: InvariantViolation[] = [];
    let violations = 0;
    try {
      const checked = await run(deps, grace, (violation) => {
        violations += 1;
        if (first.length < VIOLATIONS_KEPT) first.push({ invariant, ...violation });
      });
      return { invariant, title, outcome: 'checked', checked, violations, first };
    } catch (error) {
      return { invariant, title, outcome: 'failed', error };
    }
  }

  async function* reports(grace: Partial<InvariantGracePeriods> = {}): AsyncGenerator<InvariantReport> {
    for (const check of invariantChecks) yield await runCheck(check, { ...defaultGrace, ...grace });
  }

  return {
    reports,

    async check(grace: Partial<InvariantGracePeriods> = {}): Promise<InvariantViolation[]> {
      const found: InvariantViolation[] = [];
      for await (const report of reports(grace)) {
        if (report.outcome === 'failed') throw report.error;
        found.push(...report.first);
      }
      return found;
    },
  };
}
