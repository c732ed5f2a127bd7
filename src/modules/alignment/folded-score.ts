import { type AlignmentEvent, type AlignmentEventBody, foldEvents } from '#src/domain/alignment/events.ts';
import { foldRound, initialFoldState, type StreakThresholds } from '#src/domain/alignment/fold.ts';
import { refusalKind } from '#src/domain/alignment/refusal.ts';
import { roundsToPrune } from '#src/domain/alignment/steering.ts';
import type { MeasuredRound, RoundBefore, ScoringResult } from './alignment.model.ts';

/** Pruning goes back over one streak; what was in it longer ago is pruned already. */
export const foldedRoundsRead = 50;

/**
 * What a measured round comes to after those before it.
 * @param before the scored rounds before it, in order, the last `foldedRoundsRead` of them
 * @param kept events of the round that the fold does not make, and which stay
 * @param at when it was scored first
 */
export function foldMeasured(
  { round, measured, kept, at }: { round: number; measured: MeasuredRound; kept: readonly AlignmentEvent[]; at: Date },
  before: readonly RoundBefore[],
  thresholds: StreakThresholds,
): ScoringResult {
  const { userScore: user, agentScore: agent, neutral, refusalReading } = measured;
  const previous = before.at(-1)?.state ?? initialFoldState;
  const state = foldRound(previous, { user, agent, neutral, refusal: refusalReading !== null }, thresholds);
  const refusal = refusalReading && {
    kind: refusalKind(refusalReading, state.userLabel),
    score: refusalReading.score,
  };

  const alreadyPruned = new Set(before.filter(({ pruned }) => pruned).map((row) => row.round));
  const prunedRounds = roundsToPrune([...before, { round, state }]).filter((other) => !alreadyPruned.has(other));

  const events: AlignmentEventBody[] = foldEvents(previous, state, { neutral, refusal }, thresholds);
  if (prunedRounds.length > 0) {
    events.push({ type: 'messages_pruned', data: { message_ids: prunedRounds.flatMap(messageIds) } });
  }
  if (measured.scoreSource === 'words') {
    events.push({ type: 'scoring_degraded', data: { reason: 'embedder_unavailable' } });
  }
  return {
    prunedRounds,
    score: {
      ...measured,
      refusalKind: refusal?.kind ?? null,
      alignmentScore: state.alignmentScore,
      ewma: state.ewma,
      echoState: state.shown,
      foldState: state,
      events: [...kept, ...events.map((event) => ({ ...event, round, at: at.toISOString() }))],
    },
  };
}

/** The two messages of a round, as events name them. */
function messageIds(round: number): string[] {
  return [`${round}:user`, `${round}:assistant`];
}
