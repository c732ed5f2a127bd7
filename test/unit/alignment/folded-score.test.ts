import { expect } from 'chai';
import type { EarlierScoredRound, RoundMeasurement, StoredRoundScore } from '#src/modules/alignment/alignment.model.ts';
import { computeRoundScore, recomputeRoundScores } from '#src/modules/alignment/score-series.ts';

const thresholds = { offTopic: 3, onTopic: 2 };
const at = new Date('2026-11-22T12:00:00Z');

const measured = (userScore: number, agentScore: number, extra: Partial<RoundMeasurement> = {}): RoundMeasurement => ({
  scorerVersion: '1',
  scoreSource: 'embedding',
  userScore,
  agentScore,
  neutral: false,
  refusalReading: null,
  ...extra,
});

/** Folds rounds one by one, as scoring does. */
function scoreAll(rounds: readonly RoundMeasurement[]): StoredRoundScore[] {
  const stored: StoredRoundScore[] = [];
  for (const [index, each] of rounds.entries()) {
    const before: EarlierScoredRound[] = stored.map((row) => ({ ...row, state: row.foldState }));
    const { score, prunedRounds } = computeRoundScore(
      { round: index + 1, measured: each, kept: [], at },
      before,
      thresholds,
    );
    stored.push({ ...score, round: index + 1, scoredAt: at, pruned: false });
    for (const row of stored) if (prunedRounds.includes(row.round)) row.pruned = true;
  }
  return stored;
}

const drifting = [measured(0.9, 0.9), measured(0.1, 0.8), measured(0.1, 0.2), measured(0.08, 0.15), measured(0.1, 0.1)];
const prunedIn = (rows: readonly StoredRoundScore[]) => rows.filter(({ pruned }) => pruned).map(({ round }) => round);

describe('the score of a round', () => {
  it('names the messages that leave the context, each once', () => {
    const pruned = scoreAll(drifting).map(({ events }) => events.find(({ type }) => type === 'messages_pruned'));
    expect(pruned.slice(0, 3)).to.deep.equal([undefined, undefined, undefined]);
    expect(pruned[3]).to.deep.equal({
      type: 'messages_pruned',
      round: 4,
      at: at.toISOString(),
      data: { message_ids: ['2:user', '2:assistant', '3:user', '3:assistant'] },
    });
    expect(pruned[4]?.data).to.deep.equal({ message_ids: ['4:user', '4:assistant'] });
  });

  it('has refusal kind scope if the user was off topic, and keeps the reading of the reply', () => {
    const refusalReading = { kind: 'capability', score: 0.7 } as const;
    const [on, off] = scoreAll([measured(0.9, 0.1, { refusalReading }), measured(0.1, 0.1, { refusalReading })]);
    expect(on).to.deep.include({ refusalKind: 'capability', echoState: 'refusal', refusalReading });
    expect(off).to.deep.include({ refusalKind: 'scope', echoState: 'refusal', refusalReading });
    expect(off?.events[0]).to.deep.include({ type: 'refusal_detected', data: { kind: 'scope', score: 0.7 } });
  });

  it('reports scoring by words alone as an event', () => {
    const [row] = scoreAll([measured(0.9, 0.9, { scoreSource: 'words' })]);
    expect(row?.events.map(({ type }) => type)).to.deep.equal(['scoring_degraded']);
  });
});

describe('refolding the series of a chat', () => {
  it('changes nothing if no measurement changes', () => {
    const stored = scoreAll(drifting);
    expect(prunedIn(stored)).to.deep.equal([2, 3, 4]);
    expect(recomputeRoundScores(stored, new Map(), thresholds)).to.deep.equal(stored);
  });

  it('gives the same series as scoring with the new measurements from the start', () => {
    const stored = scoreAll(drifting);
    const anew = recomputeRoundScores(stored, new Map([[3, measured(0.9, 0.9, { scorerVersion: '2' })]]), thresholds);
    expect(anew).to.deep.equal(scoreAll(drifting.with(2, measured(0.9, 0.9, { scorerVersion: '2' }))));
    expect(prunedIn(anew)).to.deep.equal([]);
  });

  it('keeps scoring_failed events of a round', () => {
    const [row] = scoreAll(drifting.slice(0, 1));
    const failed = {
      type: 'scoring_failed',
      round: 1,
      at: at.toISOString(),
      data: { reason: 'internal_error' },
    } as const;
    const stored = row === undefined ? [] : [{ ...row, events: [failed, ...row.events] }];
    expect(recomputeRoundScores(stored, new Map(), thresholds)).to.deep.equal(stored);
  });
});
