import type { DroppedCitation } from '../chat/citation-markers.ts';
import { type AlignmentState, isDriftState, minAgentDriftStreak, type StreakThresholds } from './chat-state.ts';
import type { RefusalKind } from './refusal.ts';

type DriftCause = 'user_streak' | 'agent_streak' | 'ewma';
export type SteeringLevel = 'soft' | 'strong' | 'persona';

export type AlignmentEventBody =
  | { type: 'topic_off'; data: { streak: number } }
  | { type: 'topic_on'; data: { streak: number } }
  | { type: 'watch_entered'; data: Record<string, never> }
  | { type: 'watch_cleared'; data: Record<string, never> }
  | { type: 'drift_started'; data: { cause: DriftCause; streak: number; ewma: number } }
  | { type: 'steering_applied'; data: { level: SteeringLevel } }
  | { type: 'messages_pruned'; data: { message_ids: string[] } }
  | { type: 'recovering'; data: Record<string, never> }
  | { type: 'drift_resolved'; data: { rounds: number } }
  | { type: 'refusal_detected'; data: { kind: RefusalKind; score: number } }
  | { type: 'over_refusal'; data: { count: number } }
  | { type: 'citation_dropped'; data: DroppedCitation }
  | { type: 'retrieval_degraded'; data: { reason: string } }
  | { type: 'scoring_degraded'; data: { reason: string } }
  | { type: 'scoring_failed'; data: { reason: string } };

export type AlignmentEvent = AlignmentEventBody & { round: number; at: string };

/**
 * Derives the alignment events of a round. `topic_off` is reported for every off-topic message, `topic_on` for on-topic
 * messages until the chat is stable again.
 * @param round.refusal the agent's refusal in this round, or null
 */
export function alignmentEventsOfRound(
  previous: AlignmentState,
  next: AlignmentState,
  round: { neutral: boolean; refusal: { kind: RefusalKind; score: number } | null },
  thresholds: StreakThresholds,
): AlignmentEventBody[] {
  const events: AlignmentEventBody[] = [];
  if (round.refusal) events.push({ type: 'refusal_detected', data: round.refusal });
  if (next.refusals >= overRefusalThreshold) events.push({ type: 'over_refusal', data: { count: next.refusals } });
  if (!round.neutral && next.userLabel === 'off') events.push({ type: 'topic_off', data: { streak: next.offStreak } });
  if (!round.neutral && next.userLabel === 'on' && previous.state !== 'stable') {
    events.push({ type: 'topic_on', data: { streak: next.onStreak } });
  }
  return [...events, ...transition(previous, next, thresholds)];
}

export const overRefusalThreshold = 2;

function transition(
  previous: AlignmentState,
  next: AlignmentState,
  thresholds: StreakThresholds,
): AlignmentEventBody[] {
  if (isDriftState(previous.state)) {
    if (!isDriftState(next.state)) return [{ type: 'drift_resolved', data: { rounds: previous.driftRounds } }];
    return isRecovering(next) && !isRecovering(previous) ? [{ type: 'recovering', data: {} }] : [];
  }
  if (isDriftState(next.state)) return [driftStarted(next, thresholds)];
  if (previous.state === next.state) return [];
  return [{ type: next.state === 'watch' ? 'watch_entered' : 'watch_cleared', data: {} }];
}

function isRecovering({ state, agentLabel }: AlignmentState): boolean {
  return state === 'drift_recovering' && agentLabel === 'on';
}

function driftStarted(next: AlignmentState, thresholds: StreakThresholds): AlignmentEventBody {
  const isUsers = next.state === 'drift_user';
  const streak = isUsers ? next.offStreak : next.agentOffStreak;
  const byStreak = isUsers ? streak >= thresholds.offTopic : streak >= minAgentDriftStreak;
  const streakCause = isUsers ? 'user_streak' : 'agent_streak';
  return { type: 'drift_started', data: { cause: byStreak ? streakCause : 'ewma', streak, ewma: next.ewma } };
}
