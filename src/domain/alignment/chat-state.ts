export type OnOrOffTopic = 'on' | 'off';
const driftStates = ['stable', 'watch', 'drift_user', 'drift_agent', 'drift_recovering'] as const;
type DriftState = (typeof driftStates)[number];
/**
 * Alignment state that is shown for a round and its chat. `refusal` is shown only for the round in which the agent
 * refused and does not change the drift state.
 */
export const echoStates = [...driftStates, 'refusal'] as const;
export type EchoState = (typeof echoStates)[number];
type AlignmentStateCategory = 'stable' | 'drift' | 'refusal';

/**
 * Alignment scores of a round's message (`user`) and reply (`agent`), 0 to 1. `neutral`: the message has no topic.
 * `refusal`: the agent refused, so its score is ignored.
 */
export type RoundScores = { user: number; agent: number; neutral: boolean; refusal: boolean };

export type StreakThresholds = { offTopic: number; onTopic: number };

export type AlignmentState = {
  alignmentScore: number;
  /** Exponentially weighted moving average of the alignment scores, 0 to 100. */
  ewma: number;
  userLabel: OnOrOffTopic;
  agentLabel: OnOrOffTopic;
  /** Consecutive off-topic (`offStreak`) and on-topic (`onStreak`) user messages; neutral messages do not count. */
  offStreak: number;
  onStreak: number;
  agentOffStreak: number;
  recovery: number;
  /** False after a drift until the score trend has recovered (hysteresis): a low trend then starts no drift. */
  armed: boolean;
  state: DriftState;
  shown: EchoState;
  driftRounds: number;
  refusals: number;
};

export const initialAlignmentState: AlignmentState = {
  alignmentScore: 1,
  ewma: 100,
  userLabel: 'on',
  agentLabel: 'on',
  offStreak: 0,
  onStreak: 0,
  agentOffStreak: 0,
  recovery: 0,
  armed: true,
  state: 'stable',
  shown: 'stable',
  driftRounds: 0,
  refusals: 0,
};

// Two score thresholds (Schmitt trigger), so that scores near one of them do not make the topic label flicker.
const onTopicFrom = 0.5;
const offTopicUnder = 0.35;
const ewmaWeight = 0.3;
/**
 * Limits of the EWMA control chart of alignment scores, chosen by simulation: warn at 1.5 sigma, drift at 3.
 */
const watchUnder = 65;
const driftUnder = 45;
export const minAgentDriftStreak = 2;

/** Computes a chat's alignment state after a round. A pure function, so states can be recomputed from scores. */
export function alignmentStateAfterRound(
  previous: AlignmentState,
  scores: RoundScores,
  thresholds: StreakThresholds,
): AlignmentState {
  const alignmentScore = combinedScore(previous, scores);
  const ewma = ewmaWeight * 100 * alignmentScore + (1 - ewmaWeight) * previous.ewma;
  const userLabel = scores.neutral ? previous.userLabel : labelOf(scores.user, previous.userLabel);
  const agentLabel = scores.refusal ? 'on' : labelOf(scores.agent, previous.agentLabel);
  const measured: AlignmentState = {
    ...previous,
    ...userStreaks(previous, scores.neutral ? 'neutral' : userLabel),
    alignmentScore,
    ewma,
    userLabel,
    agentLabel,
    agentOffStreak: agentLabel === 'on' ? 0 : previous.agentOffStreak + 1,
    armed: previous.armed || ewma >= watchUnder,
    refusals: scores.refusal && userLabel === 'on' ? previous.refusals + 1 : 0,
  };
  const next = isDriftState(previous.state) ? stayOrLeave(measured, thresholds) : stayOrEnter(measured, thresholds);
  return {
    ...next,
    shown: scores.refusal ? 'refusal' : next.state,
    driftRounds: isDriftState(next.state) ? previous.driftRounds + 1 : 0,
  };
}

export function isOnTopicScore(score: number): boolean {
  return score >= onTopicFrom;
}

export function isDriftState(state: EchoState): boolean {
  return state.startsWith('drift_');
}

export function categoryOfAlignmentState(state: EchoState): AlignmentStateCategory {
  if (state === 'refusal') return 'refusal';
  return isDriftState(state) ? 'drift' : 'stable';
}

function combinedScore(previous: AlignmentState, scores: RoundScores): number {
  if (scores.neutral) return previous.alignmentScore;
  return scores.refusal ? scores.user : 0.5 * scores.user + 0.5 * scores.agent;
}

function labelOf(score: number, previous: OnOrOffTopic): OnOrOffTopic {
  if (isOnTopicScore(score)) return 'on';
  return score < offTopicUnder ? 'off' : previous;
}

type UserStreaks = Pick<AlignmentState, 'offStreak' | 'onStreak' | 'recovery'>;

function userStreaks(
  { offStreak, onStreak, recovery }: AlignmentState,
  message: OnOrOffTopic | 'neutral',
): UserStreaks {
  if (message === 'neutral') return { offStreak, onStreak, recovery };
  if (message === 'off') return { offStreak: offStreak + 1, onStreak: 0, recovery: 0 };
  return { offStreak: 0, onStreak: onStreak + 1, recovery: recovery + 1 };
}

function stayOrEnter(now: AlignmentState, thresholds: StreakThresholds): AlignmentState {
  const trendFell = now.armed && now.ewma < driftUnder;
  const userIsOff = now.userLabel === 'off';
  const byUser = now.offStreak >= thresholds.offTopic || (trendFell && userIsOff);
  const byAgent = isAgentDrifting(now) || (trendFell && !userIsOff);
  if (byUser) return { ...now, state: 'drift_user', recovery: 0 };
  if (byAgent) return { ...now, state: 'drift_agent', recovery: 0 };
  const isUneasy = now.offStreak > 0 || now.agentOffStreak > 0 || now.ewma < watchUnder;
  return { ...now, state: isUneasy ? 'watch' : 'stable' };
}

function stayOrLeave(now: AlignmentState, thresholds: StreakThresholds): AlignmentState {
  if (now.userLabel === 'off') return { ...now, state: 'drift_user' };
  if (now.agentLabel === 'off') {
    const isAgents = isAgentDrifting(now) || now.state === 'drift_agent';
    return { ...now, state: isAgents ? 'drift_agent' : 'drift_recovering' };
  }
  if (now.recovery < thresholds.onTopic || now.ewma < driftUnder) return { ...now, state: 'drift_recovering' };
  const isUp = now.ewma >= watchUnder;
  return { ...now, state: isUp ? 'stable' : 'watch', armed: isUp, offStreak: 0, agentOffStreak: 0 };
}

function isAgentDrifting(now: AlignmentState): boolean {
  return now.agentOffStreak >= minAgentDriftStreak && now.userLabel === 'on';
}
