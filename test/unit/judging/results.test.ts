import { expect } from 'chai';
import fc from 'fast-check';
import {
  type ComparedTestCase,
  combineVerdictsOfBothOrders,
  compareScoresByAxis,
  computeComparisonStatistics,
  isWinnerExplainedByLength,
  summarizeComparisons,
  type WinningSide,
} from '#src/domain/judging/comparison.ts';
import { pairTestCases, toEvalScores } from '#src/domain/judging/eval-scores.ts';
import {
  type JudgeCallOutcome,
  judgeCallsOfPrompt,
  judgeCallsOfReply,
  judgeCallsOfReplyPair,
  type WinningReply,
} from '#src/domain/judging/judgement.ts';
import {
  buildEvaluationResult,
  buildTestCaseResult,
  computePromptAxisScores,
  listFailedJudgeCalls,
} from '#src/domain/judging/outcome.ts';
import { axesOfPromptScores, axesOfReplyScores } from '#src/domain/judging/rubric.ts';

const rationale = 'So it is.';
const answered = { input: 'q', generatedResponse: 'r', hasReference: false };

function anchored(scores: readonly number[], caseIndex = 0): JudgeCallOutcome[] {
  return judgeCallsOfReply('anchored', { caseIndex, hasReference: false }).map((unit) => {
    if (unit.mode !== 'anchored') throw new Error(unit.mode);
    const { axis, sample } = unit;
    const score = scores[sample - 1] ?? 0;
    const severity = 'structural' as const;
    return {
      unit,
      judgement: { mode: 'anchored', axis, score, rationale: `#${sample}`, weakness: `w${sample}`, severity },
    };
  });
}

describe('results of an evaluation', () => {
  it('are the mean of the samples, with the texts of the nearest sample', () => {
    const result = buildTestCaseResult(answered, anchored([1, 3, 3]));
    expect(result?.responseScores).length(4);
    expect(result?.responseScores[0]).deep.equal({
      ...{ axis: 'adherence', label: 'Follows persona & constraints', score: 2.33, sd: 1.15 },
      ...{ rationale: '#2', weakness: 'w2', severity: 'structural' },
    });
    expect(result?.responseAverage).equal(2.33);
  });

  it('have no weakness and severity with the plain rubric', () => {
    const scores = axesOfPromptScores.map((axis, index) => ({ axis, rationale, score: index % 6 }));
    const [unit] = judgeCallsOfPrompt('plain');
    if (unit === undefined) throw new Error('no unit');
    const shown = computePromptAxisScores([{ unit, judgement: { mode: 'plain', scores } }]);
    expect(shown.map(({ axis, score }) => [axis, score])).deep.equal(
      axesOfPromptScores.map((axis, index) => [axis, index]),
    );
    expect(shown[1]).deep.equal({
      ...{ axis: 'instruction_specificity', label: 'Specific instructions', score: 1, rationale, weakness: '' },
    });
  });

  it('use the available samples, and omit a case with a missing axis', () => {
    const outcomes = anchored([4, 2, 2]);
    const without = (count: number): JudgeCallOutcome[] =>
      outcomes.map((outcome, index) =>
        index < count ? { unit: outcome.unit, code: 'judge_response_invalid' } : outcome,
      );
    expect(buildTestCaseResult(answered, without(1))?.responseScores[0]?.score).equal(2);
    expect(buildTestCaseResult(answered, without(3))).equal(null);
    expect(listFailedJudgeCalls(without(1))).deep.equal([
      { unit: 'case 1/adherence#1', code: 'judge_response_invalid' },
    ]);
  });

  it('weight prompt and replies equally, and the prompt alone without cases', () => {
    const prompt = computePromptAxisScores([]);
    expect(buildEvaluationResult(prompt, [])).include({ promptAverage: 0, responseAverage: 0, overallAverage: 0 });
    const one = { axis: 'role_clarity' as const, label: 'l', score: 5, rationale, weakness: '' };
    expect(buildEvaluationResult([one], [])).include({ promptAverage: 5, responseAverage: 0, overallAverage: 5 });
    const cases = [
      [1, 1, 1],
      [2, 2, 3],
    ].flatMap((scores) => buildTestCaseResult(answered, anchored(scores)) ?? []);
    expect(buildEvaluationResult([one], cases)).include({ responseAverage: 1.67, overallAverage: 3.34 });
    expect(buildEvaluationResult([], cases)).include({ promptAverage: 0, responseAverage: 1.67, overallAverage: 1.67 });
  });

  it('can be recomputed exactly from the rounded scores', () => {
    const score = fc.integer({ min: 0, max: 5 });
    fc.assert(
      fc.property(fc.array(fc.tuple(score, score, score), { minLength: 1, maxLength: 20 }), (samples) => {
        const cases = samples.flatMap((scores) => buildTestCaseResult(answered, anchored(scores)) ?? []);
        const result = buildEvaluationResult([], cases);
        const again = buildEvaluationResult(result.promptScores, result.cases);
        expect(again).deep.equal(result);
        expect(result.responseAverage).within(0, 5);
      }),
      { numRuns: 50 },
    );
  });
});

describe('a pair in both orders', () => {
  const said = (winner: WinningReply) => ({ winner, rationale });
  const all: WinningReply[] = ['A', 'B', 'tie'];

  it('is won only by a side that wins in both', () => {
    expect(combineVerdictsOfBothOrders(said('A'), said('B'))).include({ winner: 'version', isFlipped: false });
    expect(combineVerdictsOfBothOrders(said('B'), said('A'))).include({ winner: 'baseline', isFlipped: false });
    expect(combineVerdictsOfBothOrders(said('tie'), said('tie'))).include({ winner: 'tie', isFlipped: false });
    expect(combineVerdictsOfBothOrders(said('A'), said('tie'))).include({ winner: 'tie', isFlipped: true });
  });

  it('is a tie if the judge always prefers one position', () => {
    for (const winner of ['A', 'B'] as const) {
      expect(combineVerdictsOfBothOrders(said(winner), said(winner))).include({ winner: 'tie', isFlipped: true });
    }
  });

  it('is mirrored exactly when the sides are swapped', () => {
    const mirror = { version: 'baseline', baseline: 'version', tie: 'tie' } as const;
    for (const ab of all) {
      for (const ba of all) {
        const [one, other] = [
          combineVerdictsOfBothOrders(said(ab), said(ba)),
          combineVerdictsOfBothOrders(said(ba), said(ab)),
        ];
        expect(other.winner, `${ab} ${ba}`).equal(mirror[one.winner]);
        expect(other.isFlipped).equal(one.isFlipped);
      }
    }
  });

  it('has no result while an order is missing', () => {
    const outcomes = judgeCallsOfReplyPair({ caseIndex: 0, hasReference: false }).map(
      (unit, index): JudgeCallOutcome =>
        index === 1 ? { unit, code: 'x' } : { unit, judgement: { mode: 'pairwise', rationale, winner: 'tie' } },
    );
    const axes = compareScoresByAxis(outcomes, axesOfReplyScores).map(({ axis }) => axis);
    expect(axes).deep.equal(['relevance', 'completeness', 'clarity']);
  });
});

function compared(winners: readonly WinningSide[], lengths = [10, 10], isFlipped = false): ComparedTestCase {
  const [ofVersion = 0, ofBaseline = 0] = lengths;
  return {
    input: 'q',
    versionResponse: 'v'.repeat(ofVersion),
    baselineResponse: 'b'.repeat(ofBaseline),
    comparisons: winners.map((winner) => ({ axis: 'clarity', label: 'Clarity', winner, rationale, isFlipped })),
  };
}

describe('a comparison', () => {
  it('counts wins over cases and axes', () => {
    const cases = [compared(['version', 'version', 'tie', 'baseline']), compared(['tie', 'tie', 'tie', 'baseline'])];
    expect(summarizeComparisons(cases)).deep.equal({ versionWins: 2, baselineWins: 2, ties: 4 });
    expect(computeComparisonStatistics(cases)).deep.include({ caseWins: { versionWins: 1, baselineWins: 1, ties: 0 } });
  });

  it('says when the result is not significant', () => {
    const conclusion = (count: number, losses = 0) =>
      computeComparisonStatistics([
        ...Array.from({ length: count }, () => compared(['version'])),
        ...Array.from({ length: losses }, () => compared(['baseline'])),
      ]).conclusion;
    expect(conclusion(5)).match(/^Not significant: 5 decided cases are too few/);
    expect(conclusion(6)).match(/^Significant: .* better \(p = 0\.031\)/);
    expect(conclusion(14, 6)).match(/^Not significant: the version wins 14 of 20/);
    expect(conclusion(15, 5)).match(/^Significant: the version wins 15 of 20/);
    expect(conclusion(5, 15)).match(/worse/);
  });

  it('reports the flip rate and the length ratio', () => {
    const cases = [compared(['tie', 'tie'], [30, 20], true), compared(['version', 'tie'], [30, 20])];
    expect(computeComparisonStatistics(cases)).include({ flipRate: 0.5, lengthRatio: 1.5 });
    expect(computeComparisonStatistics([])).include({
      flipRate: 0,
      lengthRatio: null,
      pValue: 1,
      lengthConfounded: false,
    });
  });

  it('warns if the longer side wins', () => {
    const longer = { version: 130, baseline: 100, winner: 'version' as const };
    const shorter = { version: 100, baseline: 130, winner: 'version' as const };
    expect(isWinnerExplainedByLength([longer, longer, longer, longer, shorter])).equal(true);
    expect(isWinnerExplainedByLength([longer, longer, longer, shorter])).equal(false);
    expect(isWinnerExplainedByLength([{ ...longer, version: 120 }])).equal(false);
    expect(isWinnerExplainedByLength([{ ...longer, winner: 'tie' }])).equal(false);
    expect(isWinnerExplainedByLength([{ ...shorter, winner: 'baseline' }])).equal(true);
  });
});

describe('stored scores', () => {
  const evaluation = {
    ...{ rubric: 'anchored' as const, rubricVersion: 'r1', evaluatorModel: 'gpt-4o', generationModel: 'gpt-4.1' },
    ...{ failedUnits: [], finishedAt: new Date('2026-11-22T10:00:00Z'), parent: null },
  };
  const resultOf = (...averages: number[]) =>
    buildEvaluationResult(
      [],
      averages.map((responseAverage, index) => ({
        ...{ ...answered, input: `q${index}`, generatedResponse: 'r'.repeat(10 * responseAverage) },
        ...{ responseScores: [], responseAverage },
      })),
    );

  it('contain the confidence interval and whether judge and generator are of one family', () => {
    const scores = toEvalScores({ ...evaluation, result: resultOf(1, 2, 3, 4, 5) });
    expect(scores).deep.include({ ci95: [1.04, 4.96], samples: 3, same_family: true, rubric_version: 'r1' });
    expect(toEvalScores({ ...evaluation, result: resultOf(0, 5) }).ci95).deep.equal([0, 5]);
    expect(toEvalScores({ ...evaluation, result: resultOf(3) }).ci95).equal(null);
  });

  it('are compared with those of the parent, case by case', () => {
    const parent = toEvalScores({ ...evaluation, result: resultOf(1, 1, 1) });
    const scores = toEvalScores({ ...evaluation, parent, result: resultOf(2, 3, 4) });
    expect(scores.length_confounded).equal(true);
    expect(pairTestCases(scores.cases, parent.cases).map(({ version }) => version.input)).deep.equal([
      'q0',
      'q1',
      'q2',
    ]);
    expect(pairTestCases(scores.cases, parent.cases.slice(1))).length(2);
  });
});
