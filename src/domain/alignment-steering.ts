import { overRefusalFrom, type SteeringLevel } from './alignment-events.ts';
import type { FoldState } from './alignment-fold.ts';

/**
 * What the next model call is told. `note` ends the system prompt; `afterHistory` is one more system message after the
 * history, where an agent that has lost its persona reads it last. Nothing is ever blocked.
 */
export type Steering = { level: SteeringLevel | null; note: string | null; afterHistory: string | null };

const scopeAnchors = 8;

/** @param agent the persona is the agent's system prompt; anchors are its topic words with their weights */
export function steeringFor(
  state: FoldState,
  agent: { persona: string; anchors: Readonly<Record<string, number>> },
): Steering {
  switch (state.shown) {
    case 'stable':
      return { level: null, note: null, afterHistory: null };
    case 'refusal':
      return { level: null, note: state.refusals >= overRefusalFrom ? overRefusalNote : null, afterHistory: null };
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

/** A scored round with the state after it. */
export type FoldedRound = { round: number; state: FoldState };

/**
 * The rounds that the newest state takes out of the model's context: those of the user's off-topic streak but the
 * last in `drift_user`, those of the agent's in `drift_agent`. What was pruned once stays pruned; history and export
 * keep it.
 * @param rounds scored rounds in order, at least as far back as the streak
 */
export function roundsToPrune(rounds: readonly FoldedRound[]): number[] {
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
