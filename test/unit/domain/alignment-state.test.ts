import { expect } from 'chai';
import fc from 'fast-check';
import {
  type AlignmentState,
  alignmentStateAfterRound,
  categoryOfAlignmentState,
  initialAlignmentState,
  type RoundScores,
} from '#src/domain/alignment/chat-state.ts';
import { alignmentEventsOfRound } from '#src/domain/alignment/events.ts';
import { roundsToPruneFromContext, steeringInstructionsFor } from '#src/domain/alignment/steering.ts';
import { propertyRuns } from '#test/support/property-runs.ts';

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
  const score = fc.oneof(fc.double({ min: 0, max: 1, noNaN: true }), fc.constantFrom(0, 0.35, 0.5, 1));
  const seldom = fc.integer({ min: 0, max: 3 }).map((n) => n === 0);
  const anyRounds = fc.array(fc.record({ user: score, agent: score, neutral: seldom, refusal: seldom }), {
    maxLength: 60,
  });
  const limit = fc.integer({ min: 1, max: 10 });

  it('equals the state of the reference algorithm on random chats', () => {
    fc.assert(
      fc.property(anyRounds, fc.record({ offTopic: limit, onTopic: limit }), (all, limits) => {
        let reference = initialReference;
        for (const [index, state] of statesOf(all, limits).entries()) {
          const round = all[index - 1];
          if (round !== undefined) reference = referenceStep(reference, round, limits);
          const { E, ...exact } = reference;
          expect(state.ewma).closeTo(E, 1e-9).and.within(0, 100);
          expect({
            ...{ A: state.alignmentScore, ul: state.userLabel === 'on', al: state.agentLabel === 'on' },
            ...{ off: state.offStreak, on: state.onStreak, aoff: state.agentOffStreak, rec: state.recovery },
            ...{ armed: state.armed, fsm: state.state, shown: state.shown },
          }).to.deep.equal(exact);
        }
      }),
      { numRuns: propertyRuns(3000) },
    );
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

  it('reports the end of state watch, a recovery, and the cause of a drift', () => {
    expect(eventsOf('0.1 0.9, 0.9 0.9')[1]).to.deep.equal(['topic_on 1', 'watch_cleared']);
    const recovering = eventsOf('0 0, 0 0, 0 0, 0.9 0.1, 0.5 0.5, 0.5 0.5');
    expect(recovering.slice(3).map((list) => list.at(-1))).to.deep.equal(['topic_on 1', 'recovering', 'topic_on 3']);
    expect(eventsOf('0.9 0.1, 0.9 0.1')[1]?.at(-1)).to.match(/^drift_started agent_streak 2/);
    const byTrend = eventsOf('0 0, 0 0, 0.5 0, 0 0').flat();
    expect(byTrend.find((text) => text.startsWith('drift_started'))).to.match(/ (ewma|agent_streak) /);
  });
});

describe('steering a chat by its alignment state', () => {
  const agent = { persona: 'You are a bank clerk.', anchors: { loan: 5, card: 9, mortgage: 9 } };
  const steering = (text: string) =>
    steeringInstructionsFor(statesOf(rounds(text)).at(-1) ?? initialAlignmentState, agent);

  it('adds no note in state stable, and names the heaviest anchor words in watch and recovery', () => {
    expect(steering('0.9 0.9')).to.deep.equal({ level: null, note: null, afterHistory: null });
    const note = 'Scope: card, mortgage, loan. If the request is outside it, answer briefly and return to scope.';
    expect(steering('0.1 0.9')).to.deep.equal({ level: 'soft', note, afterHistory: null });
    expect(steering('0.1 0.1, 0.1 0.1, 0.1 0.1, 0.9 0.9').level).to.equal('soft');
    const anchors = Object.fromEntries('jihgfedcba'.split('').map((word) => [word, 5]));
    const [, watching = initialAlignmentState] = statesOf(rounds('0.1 0.9'));
    expect(steeringInstructionsFor(watching, { ...agent, anchors }).note).to.match(/^Scope: a, b, c, d, e, f, g, h\. /);
  });

  it('repeats the persona when the user drifts, and after the history when the agent drifts', () => {
    const { level, note } = steering('0.1 0.1, 0.1 0.1, 0.1 0.1');
    expect(level).to.equal('strong');
    expect(note).to.include(agent.persona).and.to.include('The last 3 user messages were out of scope');
    expect(steering('0 0, 0.9 0, 0 0').note).to.include('The last user message was out of scope');
    const afterDrift = { level: 'persona', note: null, afterHistory: agent.persona };
    expect(steering('0.9 0.1, 0.9 0.1')).to.deep.equal(afterDrift);
  });

  it('adds a note only from the second refusal of an on-topic request', () => {
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

const initialReference = {
  ...{ A: 1, E: 100, ul: true, al: true, off: 0, on: 0, aoff: 0, rec: 0 },
  ...{ armed: true, fsm: 'stable', shown: 'stable' },
};

/** One step of the state machine as its simulation ran it. */
function referenceStep(S: typeof initialReference, r: RoundScores, K: typeof thresholds): typeof initialReference {
  const label = (a: number, prev: boolean) => a >= 0.5 || (a >= 0.35 && prev);
  const A = r.neutral ? S.A : r.refusal ? r.user : 0.5 * r.user + 0.5 * r.agent;
  const E = 30 * A + 0.7 * S.E;
  let { off, on, aoff, rec, armed, fsm } = S;
  const ul = r.neutral ? S.ul : label(r.user, S.ul);
  const al = r.refusal || label(r.agent, S.al);
  if (!r.neutral) [off, on, rec] = ul ? [0, on + 1, rec + 1] : [off + 1, 0, 0];
  aoff = al ? 0 : aoff + 1;
  if (E >= 65) armed = true;
  const U = off >= K.offTopic;
  const G = aoff >= 2 && ul;
  const X = armed && E < 45;
  if (fsm === 'stable' || fsm === 'watch') {
    fsm = U || (X && !ul) ? 'drift_user' : G || (X && ul) ? 'drift_agent' : off || aoff || E < 65 ? 'watch' : 'stable';
    if (fsm.startsWith('drift_')) rec = 0;
  } else if (ul && al) {
    if (rec >= K.onTopic && E >= 45) {
      fsm = E >= 65 ? 'stable' : 'watch';
      armed = E >= 65;
      off = aoff = 0;
    } else fsm = 'drift_recovering';
  } else fsm = !ul ? 'drift_user' : G || fsm === 'drift_agent' ? 'drift_agent' : 'drift_recovering';
  return { A, E, ul, al, off, on, aoff, rec, armed, fsm, shown: r.refusal ? 'refusal' : fsm };
}
