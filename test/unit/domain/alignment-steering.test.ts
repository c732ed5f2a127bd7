import { expect } from 'chai';
import { alignmentStateAfterRound, initialAlignmentState, type RoundScores } from '#src/domain/alignment/chat-state.ts';
import {
  type RoundAlignmentState,
  roundsToPruneFromContext,
  steeringInstructionsFor,
} from '#src/domain/alignment/steering.ts';

const thresholds = { offTopic: 3, onTopic: 2 };
const agent = { persona: 'You are a bank clerk.', anchors: { loan: 5, card: 9, mortgage: 9 } };
const round = (user: number, agentScore: number, extra: Partial<RoundScores> = {}): RoundScores => ({
  user,
  agent: agentScore,
  neutral: false,
  refusal: false,
  ...extra,
});

function chat(all: readonly RoundScores[]): RoundAlignmentState[] {
  let state = initialAlignmentState;
  return all.map((scores, index) => {
    state = alignmentStateAfterRound(state, scores, thresholds);
    return { round: index + 1, state };
  });
}

const steering = (all: readonly RoundScores[]) =>
  steeringInstructionsFor(chat(all).at(-1)?.state ?? initialAlignmentState, agent);

describe('steering', () => {
  it('adds no note while the chat is stable', () => {
    expect(steering([round(0.9, 0.9)])).to.deep.equal({ level: null, note: null, afterHistory: null });
  });

  it('names the heaviest anchors as scope in watch and during recovery', () => {
    const note = 'Scope: card, mortgage, loan. If the request is outside it, answer briefly and return to scope.';
    expect(steering([round(0.1, 0.9)])).to.deep.equal({ level: 'soft', note, afterHistory: null });
    expect(steering([round(0.1, 0.1), round(0.1, 0.1), round(0.1, 0.1), round(0.9, 0.9)]).level).to.equal('soft');
  });

  it('repeats the persona and the number of off-topic messages when the user drifts', () => {
    const { level, note } = steering([round(0.1, 0.1), round(0.1, 0.1), round(0.1, 0.1)]);
    expect(level).to.equal('strong');
    expect(note).to.include(agent.persona).and.to.include('The last 3 user messages were out of scope');
  });

  it('repeats the persona after the history when the agent drifts', () => {
    expect(steering([round(0.9, 0.1), round(0.9, 0.1)])).to.deep.equal({
      level: 'persona',
      note: null,
      afterHistory: agent.persona,
    });
  });

  it('adds a note only from the second refusal of an on-topic request', () => {
    const refused = round(0.9, 0.1, { refusal: true });
    expect(steering([refused]).note).to.equal(null);
    expect(steering([refused, refused]).note).to.match(/answer the part that is in scope/);
  });
});

describe('pruning', () => {
  it("removes the user's off-topic rounds except the last from the context", () => {
    const rounds = chat([round(0.9, 0.9), round(0.1, 0.8), round(0.1, 0.2), round(0.08, 0.15)]);
    expect(roundsToPruneFromContext(rounds)).to.deep.equal([2, 3]);
  });

  it('skips neutral messages in the streak', () => {
    const rounds = chat([round(0.1, 0.8), round(0.1, 0.8), round(0.5, 0.8, { neutral: true }), round(0.1, 0.8)]);
    expect(roundsToPruneFromContext(rounds)).to.deep.equal([1, 2]);
  });

  it("removes the agent's off-topic rounds when the agent drifts", () => {
    expect(roundsToPruneFromContext(chat([round(0.9, 0.9), round(0.9, 0.1), round(0.9, 0.1)]))).to.deep.equal([2, 3]);
  });

  it('removes no rounds otherwise', () => {
    expect(roundsToPruneFromContext([])).to.deep.equal([]);
    expect(roundsToPruneFromContext(chat([round(0.1, 0.9)]))).to.deep.equal([]);
  });
});
