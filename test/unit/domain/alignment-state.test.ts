import { expect } from 'chai';
import {
  type AlignmentState,
  alignmentStateAfterRound,
  categoryOfAlignmentState,
  initialAlignmentState,
  type RoundScores,
} from '#src/domain/alignment/chat-state.ts';
import { alignmentEventsOfRound } from '#src/domain/alignment/events.ts';
import { roundsToPruneFromContext, steeringInstructionsFor } from '#src/domain/alignment/steering.ts';

const thresholds = { offTopic: 3, onTopic: 2 };
/** Rounds from a text such as `0.9 0.8, 0.9 0.1 refusal`: the scores of user and agent, and what else is true of it. */
function rounds(text: string): RoundScores[] {
  return text.split(', ').map((each) => {
    const [user, agent, extra] = each.split(' ');
    return { user: Number(user), agent: Number(agent), neutral: extra === 'neutral', refusal: extra === 'refusal' };
  });
}

/** The state before the first round and after each. */
function statesOf(all: readonly RoundScores[], limits = thresholds) {
  const states: AlignmentState[] = [initialAlignmentState];
  for (const round of all) states.push(alignmentStateAfterRound(states.at(-1) ?? initialAlignmentState, round, limits));
  return states;
}

function eventsOf(text: string): string[][] {
  const states = statesOf(rounds(text));
  return rounds(text).map(({ neutral, refusal }, index) => {
    const [before = initialAlignmentState, after = initialAlignmentState] = states.slice(index);
    const said = { neutral, refusal: refusal ? ({ kind: 'policy', score: 1 } as const) : null };
    return alignmentEventsOfRound(before, after, said, thresholds).map(({ type, data }) =>
      `${type} ${Object.values(data).join(' ')}`.trim(),
    );
  });
}

/** A user who drifts for three messages and comes back. */
const drift = '0.92 0.9, 0.12 0.8, 0.1 0.2, 0.08 0.15, 0.9 0.92, 0.95 0.9';

describe('the alignment state of a chat', () => {
  it('leaves `stable` when scores or their trend are low, and returns to it after on-topic rounds', () => {
    const trend = Array<string>(7).fill('0.4 0.4').join(', ');
    for (const [text, shown, ewma, offTopic] of [
      // A score from 0.35 to below 0.5 keeps the label of the message before.
      ['0.35 0.9', 'stable', 89],
      ['0.34 0.9', 'watch', 89],
      ['0.1 0.9, 0.4 0.9', 'watch watch', 79],
      ['0.5 0.5, 0.5 0.5, 0.5 0.5, 0.5 0.5', 'stable stable stable watch', 62],
      ['0.9 0.9, 0 0 neutral', 'stable watch', 95],
      ['0 0.9, 0 0.9, 0 0.9 neutral, 0 0.9', 'watch watch watch drift_user', 58],
      [trend, 'stable stable watch watch watch watch drift_agent', 45],
      [`${trend}, 0.9 0.1`, 'stable stable watch watch watch watch drift_agent drift_agent', 46],
      ['0 0.4, 0 0.4, 0 0.4, 0 0.4', 'watch watch watch drift_user', 39, 10],
      ['0.9 0.1, 0.9 0.1, 0.9 0.9, 0.9 0.9', 'watch drift_agent drift_recovering stable', 82],
      ['0.9 0.1, 0 0.1, 0.9 0.9', 'watch watch stable', 70],
      ['0 0, 0 0, 0 0, 0.9 0.1', 'watch watch drift_user drift_agent', 39],
      [
        '0 0.9, 0 0.9, 0 0.9, 0.9 0.1, 0.9 0.1, 0 0.9',
        'watch watch drift_user drift_recovering drift_agent drift_user',
        53,
      ],
      // A drift by trend needs a trend of 65 since the last recovery.
      [
        '0 0, 0 0, 0 0, 0.9 0.9, 0.5 0.5, 0.4 0.4, 0.4 0.4, 0.4 0.4',
        'watch watch drift_user drift_recovering watch watch watch watch',
        44,
      ],
      [
        `0 0, 0 0, 0 0, 0.9 0.9, 0.5 0.5, 1 1, ${trend}`,
        'watch watch drift_user drift_recovering watch stable watch watch watch watch drift_agent drift_recovering drift_recovering',
        42,
      ],
    ] as const) {
      const states = statesOf(rounds(text), { ...thresholds, offTopic: offTopic ?? thresholds.offTopic });
      expect(states.slice(1).map((state) => state.shown)).to.deep.equal(shown.split(' '), text);
      expect(Math.round(states.at(-1)?.ewma ?? 0), text).to.equal(ewma);
    }
  });

  it('follows the documented example of six rounds, with its events', () => {
    const states = statesOf(rounds(drift)).slice(1);
    expect(states.map(({ shown }) => shown).join(' ')).equal('stable watch watch drift_user drift_recovering stable');
    expect(states.map(({ ewma }) => Math.round(ewma))).to.deep.equal([97, 82, 62, 47, 60, 70]);
    const scores = states.map(({ alignmentScore }) => Number(alignmentScore.toFixed(3)));
    expect(scores).to.deep.equal([0.91, 0.46, 0.15, 0.115, 0.91, 0.925]);
    const events = eventsOf(drift).map((list) => list.map((text) => text.replace(/ \d+\.\d+$/, '')));
    expect(events).to.deep.equal([
      [],
      ['topic_off 1', 'watch_entered'],
      ['topic_off 2'],
      ['topic_off 3', 'drift_started user_streak 3'],
      ['topic_on 1', 'recovering'],
      ['topic_on 2', 'drift_resolved 2'],
    ]);
  });

  it('is `refusal` only in the round of the refusal, and reports repeated refusals of on-topic requests', () => {
    const [, first, second] = statesOf(rounds('0.1 0.1 refusal, 0.9 0.9'));
    expect(first).to.include({ shown: 'refusal', state: 'watch', agentLabel: 'on' });
    expect(second?.shown).to.equal('stable');
    const categories = (['refusal', 'stable', 'watch', 'drift_user'] as const).map(categoryOfAlignmentState);
    expect(categories).to.deep.equal(['refusal', 'stable', 'stable', 'drift']);
    expect(eventsOf('0.9 0.1 refusal, 0.9 0.1 refusal')).to.deep.equal([
      ['refusal_detected policy 1'],
      ['refusal_detected policy 1', 'over_refusal 2'],
    ]);
  });

  it('reports when `watch` ends, when a recovery begins and ends, and when a drift starts, with its cause', () => {
    expect(eventsOf('0.1 0.9, 0.9 0.9')[1]).to.deep.equal(['topic_on 1', 'watch_cleared']);
    const recovering = eventsOf('0 0, 0 0, 0 0, 0.9 0.1, 0.5 0.5, 0.5 0.5');
    expect(recovering.slice(3).map((list) => list.at(-1))).to.deep.equal(['topic_on 1', 'recovering', 'topic_on 3']);
    expect(eventsOf('0.9 0.1, 0.9 0.1')[1]?.at(-1)).to.match(/^drift_started agent_streak 2/);
    const byTrend = eventsOf(Array<string>(7).fill('0.4 0.4').join(', ')).at(-1);
    expect(byTrend?.at(-1)).to.match(/^drift_started ewma 0 44/);
    // The chat recovers when the agent is on topic again, too.
    const both = eventsOf('0 0.9, 0 0.9, 0 0.9, 0.9 0.1, 0.9 0.9').slice(3);
    expect(both).to.deep.equal([['topic_on 1'], ['topic_on 2', 'drift_resolved 2']]);
  });
});

describe('steering a chat by its alignment state', () => {
  const agent = { persona: 'You are a bank clerk.', anchors: { loan: 5, card: 9, mortgage: 9 } };
  const steering = (text: string) =>
    steeringInstructionsFor(statesOf(rounds(text)).at(-1) ?? initialAlignmentState, agent);

  it('adds nothing to the prompt if stable, a note with the heaviest anchor words in watch or after a drift', () => {
    expect(steering('0.9 0.9')).to.deep.equal({ level: null, note: null, afterHistory: null });
    const note = 'Scope: card, mortgage, loan. If the request is outside it, answer briefly and return to scope.';
    expect(steering('0.1 0.9')).to.deep.equal({ level: 'soft', note, afterHistory: null });
    expect(steering('0.1 0.1, 0.1 0.1, 0.1 0.1, 0.9 0.9').level).to.equal('soft');
    const anchors = Object.fromEntries('jihgfedcba'.split('').map((word) => [word, 5]));
    const [, watching = initialAlignmentState] = statesOf(rounds('0.1 0.9'));
    expect(steeringInstructionsFor(watching, { ...agent, anchors }).note).to.match(/^Scope: a, b, c, d, e, f, g, h\. /);
  });

  it("repeats the agent's persona in a note if the user drifts, and after the history if the agent drifts", () => {
    const { level, note } = steering('0.1 0.1, 0.1 0.1, 0.1 0.1');
    expect(level).to.equal('strong');
    expect(note).to.include(agent.persona).and.to.include('The last 3 user messages were out of scope');
    expect(steering('0 0, 0.9 0, 0 0').note).to.include('The last user message was out of scope');
    const afterDrift = { level: 'persona', note: null, afterHistory: agent.persona };
    expect(steering('0.9 0.1, 0.9 0.1')).to.deep.equal(afterDrift);
  });

  it('tells the model to answer what is in scope once it has refused two on-topic requests, but not after one', () => {
    expect(steering('0.9 0.1 refusal').note).to.equal(null);
    expect(steering('0.9 0.1 refusal, 0.9 0.1 refusal').note).to.match(/answer the part that is in scope/);
  });

  it('omits the off-topic rounds of a drift from the prompt, except the last user round and neutral rounds', () => {
    for (const [text, pruned] of [
      ['0.9 0.9, 0.1 0.8, 0.1 0.2, 0.08 0.15', [2, 3]],
      ['0.1 0.8, 0.1 0.8, 0.5 0.8 neutral, 0.1 0.8', [1, 2]],
      ['0.9 0.9, 0.9 0.1, 0.9 0.1', [2, 3]],
      ['0.1 0.9', []],
    ] as const) {
      const states = statesOf(rounds(text)).slice(1);
      expect(roundsToPruneFromContext(states.map((state, index) => ({ round: index + 1, state }))), text).to.deep.equal(
        pruned,
      );
    }
    expect(roundsToPruneFromContext([])).to.deep.equal([]);
  });
});
