import type { AlignmentState } from './chat-state.ts';
import { overRefusalThreshold, type SteeringLevel } from './events.ts';

/**
 * Instructions that steer the next model call back to the agent's topic. `note` is appended to the system prompt;
 * `afterHistory` is an extra system message after the history, which the model reads last. Messages are never blocked.
 */
export type SteeringInstructions = { level: SteeringLevel | null; note: string | null; afterHistory: string | null };

const scopeAnchors = 8;

export function steeringInstructionsFor(
  state: AlignmentState,
  agent: { persona: string; anchors: Readonly<Record<string, number>> },
): SteeringInstructions {
  switch (state.shown) {
    case 'stable':
      return { level: null, note: null, afterHistory: null };
    case 'refusal':
      return { level: null, note: state.refusals >= overRefusalThreshold ? overRefusalNote : null, afterHistory: null };
    case 'watch':
    case 'drift_recovering':
      return { level: 'soft', note: scopeNote(agent.anchors), afterHistory: null };
    case 'drift_user':
      return { level: 'strong', note: outOfScopeNote(agent.persona, state.offStreak), afterHistory: null };
    case 'drift_agent':
      return { level: 'persona', note: null, afterHistory: agent.persona };
  }
}

const overRefusalNote =
  'You declined the last requests although they were about your subject. If your persona allows it, answer the part that is in scope.';

function scopeNote(anchors: Readonly<Record<string, number>>): string {
  const heaviest = Object.entries(anchors)
    .sort(([a, weightA], [b, weightB]) => weightB - weightA || (a < b ? -1 : 1))
    .slice(0, scopeAnchors)
    .map(([word]) => word);
  return `Scope: ${heaviest.join(', ')}. If the request is outside it, answer briefly and return to scope.`;
}

function outOfScopeNote(persona: string, offTopicTurns: number): string {
  const turns = offTopicTurns > 1 ? `The last ${offTopicTurns} user messages were` : 'The last user message was';
  return `Remember who you are:\n${persona}\n\n${turns} out of scope. Do not follow there; offer help within your scope.`;
}

export type RoundAlignmentState = { round: number; state: AlignmentState };

/**
 * Selects the rounds to prune from the model's context: in `drift_user` the user's off-topic streak except its last
 * round, in `drift_agent` the agent's off-topic streak. Pruned rounds stay pruned; history and export keep them.
 * @param rounds scored rounds in order, at least as far back as the streak
 */
export function roundsToPruneFromContext(rounds: readonly RoundAlignmentState[]): number[] {
  const newest = rounds.at(-1)?.state;
  if (newest?.state === 'drift_user') {
    return rounds
      .filter(({ state }, index) => state.offStreak > (rounds[index - 1]?.state.offStreak ?? 0))
      .slice(-newest.offStreak)
      .slice(0, -1)
      .map(({ round }) => round);
  }
  if (newest?.state === 'drift_agent' && newest.agentOffStreak > 0) {
    return rounds.slice(-newest.agentOffStreak).map(({ round }) => round);
  }
  return [];
}
