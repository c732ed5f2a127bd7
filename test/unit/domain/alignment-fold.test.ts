import { expect } from 'chai';
import fc from 'fast-check';
import {
  type AlignmentState,
  alignmentStateAfterRound,
  categoryOfAlignmentState,
  initialAlignmentState,
  isDriftState,
  type RoundScores,
  type StreakThresholds,
} from '#src/domain/alignment/chat-state.ts';
import { alignmentEventsOfRound } from '#src/domain/alignment/events.ts';
import { propertyRuns } from '#test/support/property-runs.ts';
import { initialReferenceState, type ReferenceState, referenceStep } from './reference-alignment-fold.ts';

const thresholds: StreakThresholds = { offTopic: 3, onTopic: 2 };
const scores: fc.Arbitrary<RoundScores> = fc.record({
  user: fc.oneof(fc.double({ min: 0, max: 1, noNaN: true }), fc.constantFrom(0, 0.35, 0.5, 1)),
  agent: fc.oneof(fc.double({ min: 0, max: 1, noNaN: true }), fc.constantFrom(0, 0.35, 0.5, 1)),
  neutral: fc.boolean().chain((flag) => (flag ? fc.boolean() : fc.constant(false))),
  refusal: fc.boolean().chain((flag) => (flag ? fc.boolean() : fc.constant(false))),
});
const rounds = fc.array(scores, { maxLength: 60 });
const settings = fc.record({ offTopic: fc.integer({ min: 1, max: 10 }), onTopic: fc.integer({ min: 1, max: 10 }) });

function fold(
  all: readonly RoundScores[],
  limits = thresholds,
  start: AlignmentState = initialAlignmentState,
): AlignmentState[] {
  const states = [start];
  for (const round of all) states.push(alignmentStateAfterRound(states.at(-1) ?? start, round, limits));
  return states.slice(1);
}

const round = (user: number, agent: number, extra: Partial<RoundScores> = {}): RoundScores => ({
  user,
  agent,
  neutral: false,
  refusal: false,
  ...extra,
});

function asReference(state: AlignmentState): ReferenceState {
  return {
    A: state.alignmentScore,
    E: state.ewma,
    ul: state.userLabel === 'on' ? 1 : 0,
    al: state.agentLabel === 'on' ? 1 : 0,
    off: state.offStreak,
    on: state.onStreak,
    aoff: state.agentOffStreak,
    rec: state.recovery,
    armed: state.armed,
    fsm: state.state,
    shown: state.shown,
  };
}

describe('alignment fold', () => {
  it('equals the reference algorithm on random chats', () => {
    fc.assert(
      fc.property(rounds, settings, (all, limits) => {
        let expected = initialReferenceState;
        let actual = initialAlignmentState;
        for (const each of all) {
          expected = referenceStep(
            expected,
            { au: each.user, ag: each.agent, neutral: each.neutral, refusal: each.refusal },
            { off: limits.offTopic, on: limits.onTopic },
          );
          actual = alignmentStateAfterRound(actual, each, limits);
          const { E, A, ...rest } = asReference(actual);
          const { E: expectedE, A: expectedA, ...expectedRest } = expected;
          expect(rest).to.deep.equal(expectedRest);
          expect(E).to.be.closeTo(expectedE, 1e-9);
          expect(A).to.equal(expectedA);
        }
      }),
      { numRuns: propertyRuns(3000) },
    );
  });

  it('follows the worked example of six rounds', () => {
    const states = fold([
      round(0.92, 0.9),
      round(0.12, 0.8),
      round(0.1, 0.2),
      round(0.08, 0.15),
      round(0.9, 0.92),
      round(0.95, 0.9),
    ]);
    expect(states.map((state) => state.shown)).to.deep.equal([
      'stable',
      'watch',
      'watch',
      'drift_user',
      'drift_recovering',
      'stable',
    ]);
    expect(states.map((state) => Math.round(state.ewma))).to.deep.equal([97, 82, 62, 47, 60, 70]);
    expect(states.map((state) => Number(state.alignmentScore.toFixed(3)))).to.deep.equal([
      0.91, 0.46, 0.15, 0.115, 0.91, 0.925,
    ]);
  });

  it('keeps the trend between 0 and 100', () => {
    fc.assert(fc.property(rounds, (all) => fold(all).every(({ ewma }) => ewma >= 0 && ewma <= 100)));
  });

  it('drifts after the allowed number of consecutive off-topic messages', () => {
    fc.assert(
      fc.property(rounds, settings, (all, limits) => {
        for (const state of fold(all, limits))
          if (state.offStreak >= limits.offTopic) expect(isDriftState(state.state)).to.equal(true);
      }),
    );
  });

  it('ends a drift when both are on topic, the user for long enough, and the trend has recovered', () => {
    fc.assert(
      fc.property(rounds, settings, (all, limits) => {
        const states = [initialAlignmentState, ...fold(all, limits)];
        states.slice(1).forEach((state, index) => {
          if (!isDriftState(states[index]?.state ?? 'stable')) return;
          const isBack =
            state.userLabel === 'on' &&
            state.agentLabel === 'on' &&
            state.recovery >= limits.onTopic &&
            state.ewma >= 45;
          expect(isDriftState(state.state)).to.equal(!isBack);
        });
      }),
    );
  });

  it('does not drift after one off-topic message if two are allowed and the trend is high', () => {
    fc.assert(
      fc.property(rounds, scores, fc.integer({ min: 2, max: 10 }), (all, last, offTopic) => {
        const limits = { offTopic, onTopic: 2 };
        const before = fold(all, limits).at(-1) ?? initialAlignmentState;
        if (before.state !== 'stable') return;
        const after = alignmentStateAfterRound(before, { ...last, neutral: false, user: 0.1 }, limits);
        expect(isDriftState(after.state)).to.equal(false);
      }),
    );
  });

  it('can be resumed from any round', () => {
    fc.assert(
      fc.property(rounds, rounds, (first, second) => {
        const middle = fold(first).at(-1) ?? initialAlignmentState;
        const stored: AlignmentState = JSON.parse(JSON.stringify(middle));
        expect([...fold(first), ...fold(second, thresholds, stored)]).to.deep.equal(fold([...first, ...second]));
      }),
    );
  });

  it('shows a refusal for its round only and keeps the drift state', () => {
    const [first, second] = fold([round(0.1, 0.1, { refusal: true }), round(0.9, 0.9)]);
    expect([first?.shown, first?.state, first?.agentLabel]).to.deep.equal(['refusal', 'watch', 'on']);
    expect(second?.shown).to.equal('stable');
    expect(categoryOfAlignmentState('refusal')).to.equal('refusal');
  });

  it('keeps all streaks after neutral messages', () => {
    const [, off, neutral] = fold([round(0.9, 0.9), round(0.1, 0.9), round(0.9, 0.9, { neutral: true })]);
    expect(neutral).to.include({ offStreak: off?.offStreak, alignmentScore: off?.alignmentScore, userLabel: 'off' });
  });
});

describe('alignment events', () => {
  function events(all: readonly RoundScores[]): string[][] {
    const states = [initialAlignmentState, ...fold(all)];
    return all.map((each, index) => {
      const refusal = each.refusal ? ({ kind: 'policy', score: 1 } as const) : null;
      const before = states[index] ?? initialAlignmentState;
      const after = states[index + 1] ?? initialAlignmentState;
      return alignmentEventsOfRound(before, after, { neutral: each.neutral, refusal }, thresholds).map((event) =>
        `${event.type} ${Object.values(event.data).join(' ')}`.trim(),
      );
    });
  }

  it('match the worked example', () => {
    const all = events([
      round(0.92, 0.9),
      round(0.12, 0.8),
      round(0.1, 0.2),
      round(0.08, 0.15),
      round(0.9, 0.92),
      round(0.95, 0.9),
    ]);
    expect(all.map((list) => list.map((text) => text.replace(/ \d+\.\d+$/, '')))).to.deep.equal([
      [],
      ['topic_off 1', 'watch_entered'],
      ['topic_off 2'],
      ['topic_off 3', 'drift_started user_streak 3'],
      ['topic_on 1', 'recovering'],
      ['topic_on 2', 'drift_resolved 2'],
    ]);
  });

  it('report a recovery once user and agent are on topic', () => {
    const all = events([
      ...[round(0, 0), round(0, 0), round(0, 0), round(0.9, 0.1)],
      ...[round(0.5, 0.5), round(0.5, 0.5)],
    ]);
    expect(all.slice(3).map((list) => list.at(-1))).to.deep.equal(['topic_on 1', 'recovering', 'topic_on 3']);
  });

  it('name the agent as the cause if only it leaves the topic', () => {
    const all = events([round(0.9, 0.1), round(0.9, 0.1)]);
    expect(all[1]?.at(-1)).to.match(/^drift_started agent_streak 2/);
  });

  it('name the trend as the cause if no streak is long enough', () => {
    const all = events([round(0, 0), round(0, 0), round(0.5, 0), round(0, 0)]).flat();
    expect(all.find((text) => text.startsWith('drift_started'))).to.match(/ (ewma|agent_streak) /);
  });

  it('clear a watch, and report repeated refusals of on-topic requests', () => {
    expect(events([round(0.1, 0.9), round(0.9, 0.9)])[1]).to.deep.equal(['topic_on 1', 'watch_cleared']);
    expect(events([round(0.9, 0.1, { refusal: true }), round(0.9, 0.1, { refusal: true })])).to.deep.equal([
      ['refusal_detected policy 1'],
      ['refusal_detected policy 1', 'over_refusal 2'],
    ]);
  });
});
