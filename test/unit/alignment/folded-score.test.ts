import { expect } from 'chai';
import type { EarlierScoredRound, RoundMeasurement, StoredRoundScore } from '#src/modules/alignment/alignment.model.ts';
import { computeRoundScore } from '#src/modules/alignment/score-series.ts';

const thresholds = { offTopic: 3, onTopic: 2 };
const at = new Date('2026-11-22T12:00:00Z');

const measured = (userScore: number, agentScore: number, extra: Partial<RoundMeasurement> = {}): RoundMeasurement => ({
  ...{ scorerVersion: '1', scoreSource: 'embedding', userScore, agentScore, neutral: false, refusalReading: null },
  ...extra,
});

function scoreAll(rounds: readonly RoundMeasurement[]): StoredRoundScore[] {
  const stored: StoredRoundScore[] = [];
  for (const [index, each] of rounds.entries()) {
    const before: EarlierScoredRound[] = stored.map((row) => ({ ...row, state: row.foldState }));
    const round = { round: index + 1, measured: each, kept: [], at };
    const { score, prunedRounds } = computeRoundScore(round, before, thresholds);
    stored.push({ ...score, round: index + 1, scoredAt: at, pruned: false });
    for (const row of stored) if (prunedRounds.includes(row.round)) row.pruned = true;
  }
  return stored;
}

const drifting = [measured(0.9, 0.9), measured(0.1, 0.8), measured(0.1, 0.2), measured(0.08, 0.15), measured(0.1, 0.1)];

describe('the alignment score of a round', () => {
  it('lists the messages that this round removes from the context, but not those that earlier rounds removed', () => {
    const pruned = scoreAll(drifting).map(({ events }) => events.find(({ type }) => type === 'messages_pruned'));
    expect(pruned.map((event) => Object(event?.data).message_ids)).to.deep.equal([
      ...[undefined, undefined, undefined],
      ['2:user', '2:assistant', '3:user', '3:assistant'],
      ['4:user', '4:assistant'],
    ]);
    expect(pruned[3]).to.include({ round: 4, at: at.toISOString() });
  });

  it('reports the refusal of an off-topic message as kind `scope`, and also stores the kind that was measured', () => {
    const refusalReading = { kind: 'capability', score: 0.7 } as const;
    const [on, off] = scoreAll([measured(0.9, 0.1, { refusalReading }), measured(0.1, 0.1, { refusalReading })]);
    expect(on).to.deep.include({ refusalKind: 'capability', echoState: 'refusal', refusalReading });
    expect(off).to.deep.include({ refusalKind: 'scope', echoState: 'refusal', refusalReading });
    expect(off?.events[0]).to.deep.include({ type: 'refusal_detected', data: { kind: 'scope', score: 0.7 } });
  });
});
