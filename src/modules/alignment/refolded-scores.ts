import type { StreakThresholds } from '#src/domain/alignment/fold.ts';
import type { MeasuredRound, RoundBefore, StoredScore } from './alignment.model.ts';
import { foldedRoundsRead, foldMeasured } from './folded-score.ts';

/**
 * The series of a chat anew, from what was measured of its rounds: as if each had been scored so in the first place.
 * @param stored all scored rounds of the chat in order
 * @param measuredAnew by round, in place of what is stored
 */
export function refoldScores(
  stored: readonly StoredScore[],
  measuredAnew: ReadonlyMap<number, MeasuredRound>,
  thresholds: StreakThresholds,
): StoredScore[] {
  const folded = new Map<number, StoredScore>();
  const before: RoundBefore[] = [];
  for (const row of stored) {
    const measured = measuredAnew.get(row.round) ?? measuredOf(row);
    const kept = row.events.filter(({ type }) => type === 'scoring_failed');
    const { score, prunedRounds } = foldMeasured(
      { round: row.round, measured, kept, at: row.scoredAt },
      before.slice(-foldedRoundsRead),
      thresholds,
    );
    folded.set(row.round, { ...score, round: row.round, scoredAt: row.scoredAt, pruned: false });
    before.push({ round: row.round, state: score.foldState, pruned: false });
    for (const gone of prunedRounds) {
      for (const each of [folded.get(gone), before.find(({ round }) => round === gone)]) if (each) each.pruned = true;
    }
  }
  return [...folded.values()];
}

function measuredOf({ scorerVersion, scoreSource, userScore, agentScore, neutral, refusalReading }: StoredScore) {
  return { scorerVersion, scoreSource, userScore, agentScore, neutral, refusalReading };
}
