import { expect } from 'chai';
import {
  type ComparedTestCase,
  combineVerdictsOfBothOrders,
  computeComparisonStatistics,
  isWinnerExplainedByLength,
  summarizeComparisons,
  type WinningSide,
} from '#src/domain/judging/comparison.ts';
import { isSameModelFamily, pairTestCases, toEvalScores } from '#src/domain/judging/eval-scores.ts';
import {
  addJudgeTokenUsage,
  formatJudgeTokenUsage,
  type JudgeCall,
  type JudgeCallOutcome,
  type Judgement,
  judgeCallName,
  judgeCallsOfBothPrompts,
  judgeCallsOfPrompt,
  judgeCallsOfReply,
  judgeCallsOfReplyPair,
  maxModelCallsOfComparison,
  maxModelCallsOfEvaluation,
  toReplyPairToJudge,
  type WinningReply,
} from '#src/domain/judging/judgement.ts';
import {
  buildEvaluationResult,
  buildTestCaseResult,
  evaluationOutcomeOf,
  finalEvaluationStatus,
  namesOfFailedJudgeCalls,
} from '#src/domain/judging/outcome.ts';
import {
  axesOfPromptScores,
  axesOfReplyScores,
  gradedAxesOfReply,
  hasReferenceAnswer,
  type JudgeRubricAxis,
  selectJudgeRubric,
} from '#src/domain/judging/rubric.ts';
import { meanConfidenceInterval, meanScore, signTestPValue, studentTQuantile } from '#src/domain/judging/statistics.ts';

const rationale = 'So it is.';
const answered = { input: 'q', generatedResponse: 'r', hasReference: false };

describe('the rubric of an evaluation', () => {
  it('includes accuracy only if there is a reference that is not blank', () => {
    expect(gradedAxesOfReply(true)).include('accuracy').length(5);
    expect(gradedAxesOfReply(false)).deep.equal(['adherence', 'relevance', 'completeness', 'clarity']);
    expect(['', ' \n', null, undefined, 'x'].map(hasReferenceAnswer)).deep.equal([false, false, false, false, true]);
  });

  it('is `plain` for a first version and `anchored` for later versions, unless the request names a rubric', () => {
    expect(selectJudgeRubric({ hasParent: false })).equal('plain');
    expect(selectJudgeRubric({ hasParent: true })).equal('anchored');
    expect(selectJudgeRubric({ hasParent: true, requested: 'plain' })).equal('plain');
    expect(selectJudgeRubric({ hasParent: false, requested: 'anchored' })).equal('anchored');
  });
});

describe('the judge calls of an evaluation', () => {
  const names = (units: readonly JudgeCall[]) => units.map(judgeCallName);

  it('are one per text if plain, three per axis if anchored, and two per axis, one per order, for two replies', () => {
    expect(names(judgeCallsOfPrompt('plain'))).deep.equal(['prompt']);
    expect(names(judgeCallsOfReply('plain', { caseIndex: 2, hasReference: true }))).deep.equal(['case 3']);
    const anchored = names(judgeCallsOfReply('anchored', { caseIndex: 0, hasReference: false }));
    expect(anchored).length(12).include('case 1/relevance#2');
    expect(judgeCallsOfPrompt('anchored')).length(18);
    const pair = names(judgeCallsOfReplyPair({ caseIndex: 0, hasReference: true }));
    expect(pair).length(10).include.members(['case 1/accuracy AB', 'case 1/accuracy BA']);
    expect(names(judgeCallsOfBothPrompts())).deep.equal(['prompt', 'baseline prompt']);
    const all = [...judgeCallsOfPrompt('anchored'), ...judgeCallsOfBothPrompts()];
    for (const facts of [0, 1].map((caseIndex) => ({ caseIndex, hasReference: true }))) {
      all.push(...judgeCallsOfReply('plain', facts), ...judgeCallsOfReply('anchored', facts));
      all.push(...judgeCallsOfReplyPair(facts));
    }
    expect(new Set(names(all)).size).equal(all.length);
  });

  it('have a token usage that is added up and shown to the user', () => {
    const one = { calls: 1, cached: 2, inputTokens: 3, completionTokens: 4, costUsd: 0.5 };
    const two = { calls: 2, cached: 4, inputTokens: 6, completionTokens: 8, costUsd: 1 };
    expect(addJudgeTokenUsage(one, one)).deep.equal(two);
    const text = '1 answers, 2 from the cache; 3 input tokens, 4 output tokens, 0.5000 US dollars';
    expect(formatJudgeTokenUsage(one)).equal(text);
  });

  it('have a number that is known before the evaluation starts', () => {
    const twenty = Array.from({ length: 20 }, () => true);
    expect(maxModelCallsOfEvaluation('plain', twenty)).equal(41);
    expect(maxModelCallsOfEvaluation('anchored', twenty)).equal(338);
    expect(maxModelCallsOfComparison(twenty)).equal(242);
    expect(maxModelCallsOfEvaluation('plain', [])).equal(1);
    expect(maxModelCallsOfEvaluation('anchored', [false], { withPrompt: false })).equal(13);
  });
});

describe('the outcome of an evaluation', () => {
  const cases = [
    { input: 'q1', expected: 'One.' },
    { input: 'q2', expected: null },
  ];
  const known = { evaluatorModel: 'm', generationModel: 'm', rubricVersion: 'r1', cases, draw: null };
  const subject = { kind: 'version' as const, draftId: 'd', versionId: 'v' };
  const evaluation = { ...known, kind: 'evaluate' as const, subject, rubric: 'plain' as const, judgesPrompt: true };
  const comparison = { ...known, kind: 'compare' as const, subject };
  const specifications = {
    evaluation,
    repliesAlone: { ...evaluation, judgesPrompt: false },
    comparison: { ...comparison, baselineVersionId: 'b', baselineGenerationModel: 'm' },
  };
  const calls = [0, 1].flatMap((caseIndex) => {
    const facts = { caseIndex, hasReference: caseIndex === 0 };
    return [...judgeCallsOfReply('plain', facts), ...judgeCallsOfReplyPair(facts)];
  });

  /**
   * Prompts score 3 and replies 4, and the replies of the version win.
   * @param missing names of verdicts and answers that are not stored; the calls for all but the first have failed
   */
  function outcomeOf(name: keyof typeof specifications, missing: readonly string[] = []) {
    const scored = (axes: readonly JudgeRubricAxis[], score: number): Judgement => {
      return { mode: 'plain', scores: axes.map((axis) => ({ axis, rationale, score })) };
    };
    const verdicts = new Map(
      [...judgeCallsOfBothPrompts(), ...calls].map((unit): [string, Judgement] => {
        const isPrompt = unit.mode !== 'pairwise' && unit.text.kind === 'prompt';
        const plain = isPrompt ? scored(axesOfPromptScores, 3) : scored(axesOfReplyScores, 4);
        const pair: Judgement = { mode: 'pairwise', rationale, winner: Object(unit).order === 'AB' ? 'A' : 'B' };
        return [judgeCallName(unit), unit.mode === 'pairwise' ? pair : plain];
      }),
    );
    const answers = new Map(
      [1, 2].flatMap((n) => [
        [`case ${n} answer`, 'New.'],
        [`case ${n} baseline answer`, 'Old.'],
      ]),
    );
    for (const unit of missing) expect(verdicts.delete(unit) || answers.delete(unit)).equal(true);
    const failed = missing.slice(1).map((unit) => ({ unit, code: 'model_rejected' }));
    return evaluationOutcomeOf(specifications[name], { verdicts, answers, failed });
  }

  it('is built from the verdicts on the prompt and on the answer to each golden case', () => {
    const { results, ...rest } = outcomeOf('evaluation');
    expect(rest).deep.equal({ failedUnits: [], status: 'completed' });
    expect(results).deep.include({ kind: 'evaluate', promptAverage: 3, responseAverage: 4, overallAverage: 3.5 });
    expect(results.cases).length(2);
    expect(results.cases[0]).deep.include({ input: 'q1', generatedResponse: 'New.', hasReference: true });
    const [first] = results.kind === 'evaluate' ? results.promptScores : [];
    expect(first).deep.equal({ axis: 'role_clarity', label: 'Role & purpose', score: 3, rationale, weakness: '' });
    expect(outcomeOf('repliesAlone').results).deep.include({ promptScores: [], overallAverage: 4 });
  });

  it('is built from both prompts and the answers of both versions in a comparison', () => {
    const { results, ...rest } = outcomeOf('comparison');
    expect(rest).deep.equal({ failedUnits: [], status: 'completed' });
    const summary = { versionWins: 9, baselineWins: 0, ties: 0 };
    expect(results).deep.include({ kind: 'compare', versionPromptAverage: 3, baselinePromptAverage: 3, summary });
    expect(results.cases).length(2);
    expect(results.cases[0]).deep.include({ input: 'q1', versionResponse: 'New.', baselineResponse: 'Old.' });
  });

  it('omits a case without answer or verdict, and lists what is missing with its error or as incomplete', () => {
    for (const [name, missing, status, judged] of [
      ['evaluation', ['case 2 answer'], 'partial', ['q1']],
      ['evaluation', ['prompt', 'case 1'], 'failed', ['q2']],
      ['repliesAlone', ['case 1', 'case 2'], 'failed', []],
      ['comparison', ['case 1 baseline answer'], 'partial', ['q2']],
      ['comparison', ['case 1/clarity BA', 'case 2 answer', 'case 2 baseline answer'], 'failed', []],
      ['comparison', ['case 2/clarity AB'], 'partial', ['q1']],
      ['comparison', ['baseline prompt'], 'failed', ['q1', 'q2']],
    ] as const) {
      const outcome = outcomeOf(name, missing);
      const codes = ['eval_incomplete', 'model_rejected', 'model_rejected'];
      expect(outcome.failedUnits).deep.equal(missing.map((unit, index) => ({ unit, code: codes[index] })));
      expect(outcome.status, `${missing}`).equal(status);
      expect(outcome.results.cases.map(({ input }) => input)).deep.equal(judged);
    }
    const failed = Array.from({ length: 12 }, (_, n) => ({ unit: `case ${n}`, code: 'x' }));
    expect(namesOfFailedJudgeCalls(failed.slice(0, 2))).equal('case 0 (x), case 1 (x)');
    expect(namesOfFailedJudgeCalls(failed)).match(/^case 0 \(x\), .*case 9 \(x\), … \(12 in all\)$/);
  });
});

function anchored(scores: readonly number[], caseIndex = 0): JudgeCallOutcome[] {
  return judgeCallsOfReply('anchored', { caseIndex, hasReference: false }).map((unit) => {
    if (unit.mode !== 'anchored') throw new Error(unit.mode);
    const { axis, sample } = unit;
    const said = { rationale: `#${sample}`, weakness: `w${sample}`, severity: 'structural' as const };
    return { unit, judgement: { mode: 'anchored', axis, score: scores[sample - 1] ?? 0, ...said } };
  });
}

describe('the results of an evaluation', () => {
  it('are the mean of the samples, with the rationale of the sample nearest to the mean', () => {
    const result = buildTestCaseResult(answered, anchored([1, 3, 3]));
    expect(result?.responseScores).length(4);
    expect(result?.responseScores[0]).deep.equal({
      ...{ axis: 'adherence', label: 'Follows persona & constraints', score: 2.33, sd: 1.15 },
      ...{ rationale: '#2', weakness: 'w2', severity: 'structural' },
    });
    expect(result?.responseAverage).equal(2.33);
  });

  it('use the available samples, and omit a golden case with a missing axis', () => {
    const all = anchored([4, 2, 2]);
    expect(buildTestCaseResult(answered, all.slice(1))?.responseScores[0]?.score).equal(2);
    expect(buildTestCaseResult(answered, all.slice(3))).equal(null);
  });

  it('weight prompt and replies equally, and consist of the prompt alone without golden cases', () => {
    const prompt = [{ axis: 'role_clarity' as const, label: 'l', score: 5, rationale, weakness: '' }];
    const cases = ['111', '223'].flatMap((scores) => {
      return buildTestCaseResult(answered, anchored(scores.split('').map(Number))) ?? [];
    });
    for (const [promptScores, judged, promptAverage, responseAverage, overallAverage] of [
      [[], [], 0, 0, 0],
      [prompt, [], 5, 0, 5],
      [prompt, cases, 5, 1.67, 3.34],
      [[], cases, 0, 1.67, 1.67],
    ] as const) {
      const result = buildEvaluationResult([...promptScores], [...judged]);
      expect(result).include({ promptAverage, responseAverage, overallAverage });
      // The rounded scores give the same averages again.
      expect(buildEvaluationResult(result.promptScores, result.cases)).deep.equal(result);
    }
  });

  it('are complete with all judge calls, partial with enough of them, otherwise failed', () => {
    const run = { failedUnits: 1, judgedAxes: 5, cases: 4, judgedCases: 3 };
    for (const [facts, status] of [
      [{ failedUnits: 0 }, 'completed'],
      [{}, 'partial'],
      [{ judgedCases: 2 }, 'partial'],
      [{ judgedCases: 1 }, 'failed'],
      [{ judgedAxes: 0 }, 'failed'],
      [{ judgedAxes: null, judgedCases: 4 }, 'partial'],
      [{ cases: 0, judgedCases: 0 }, 'partial'],
    ] as const) {
      expect(finalEvaluationStatus({ ...run, ...facts })).equal(status);
    }
  });

  const evaluation = {
    ...{ rubric: 'anchored' as const, rubricVersion: 'r1', evaluatorModel: 'gpt-4o', generationModel: 'gpt-4.1' },
    ...{ withDocuments: false, failedUnits: [], finishedAt: new Date('2026-11-22T10:00:00Z'), parent: null },
  };
  const resultOf = (...averages: number[]) =>
    buildEvaluationResult(
      [],
      averages.map((responseAverage, index) => ({
        ...{ ...answered, input: `q${index}`, generatedResponse: 'r'.repeat(10 * responseAverage) },
        ...{ responseScores: [], responseAverage },
      })),
    );

  it('include a confidence interval, and whether judge and generator are of one model family', () => {
    const scores = toEvalScores({ ...evaluation, result: resultOf(1, 2, 3, 4, 5) });
    expect(scores).deep.include({ ci95: [1.04, 4.96], samples: 3, same_family: true, rubric_version: 'r1' });
    expect(toEvalScores({ ...evaluation, result: resultOf(0, 5) }).ci95).deep.equal([0, 5]);
    expect(toEvalScores({ ...evaluation, result: resultOf(3) }).ci95).equal(null);
  });

  it('are compared with the results of the parent version, case by case', () => {
    const parent = toEvalScores({ ...evaluation, result: resultOf(1, 1, 1) });
    const scores = toEvalScores({ ...evaluation, parent, result: resultOf(2, 3, 4) });
    expect(scores.length_confounded).equal(true);
    expect(toEvalScores({ ...evaluation, parent: scores, result: resultOf(1, 1, 1) }).length_confounded).equal(true);
    const namesOf = (parents: typeof parent.cases) =>
      pairTestCases(scores.cases, parents).map((pair) => `${pair.version.input} ${pair.parent.input}`);
    expect(namesOf(parent.cases)).deep.equal(['q0 q0', 'q1 q1', 'q2 q2']);
    expect(namesOf(parent.cases.slice(1))).deep.equal(['q1 q1', 'q2 q2']);
  });
});

describe('a comparison of two replies in both orders', () => {
  it('is won only by a reply that wins in both orders, whichever position the judge prefers', () => {
    const said = (winner: WinningReply) => ({ winner, rationale });
    const verdictOn = (ab: WinningReply, ba: WinningReply) => combineVerdictsOfBothOrders(said(ab), said(ba));
    expect(verdictOn('A', 'B')).include({ winner: 'version', isFlipped: false });
    expect(verdictOn('B', 'A')).include({ winner: 'baseline', isFlipped: false });
    expect(verdictOn('tie', 'tie')).include({ winner: 'tie', isFlipped: false });
    const flipped = ['A tie', 'B tie', 'tie A', 'tie B', 'A A', 'B B'].map((pair) => pair.split(' ') as WinningReply[]);
    for (const [ab = 'tie', ba = 'tie'] of flipped) {
      expect(verdictOn(ab, ba), `${ab} ${ba}`).include({ winner: 'tie', isFlipped: true });
    }
  });

  it('shows the judge each of the two replies once in first place and once in second', () => {
    const [version, baseline] = ['New.', 'Old.'].map((reply) => ({ persona: 'p', reply }));
    for (const order of ['AB', 'BA'] as const) {
      const pair = version && baseline && toReplyPairToJudge(order, { input: 'q', expected: null, version, baseline });
      const [a, b] = order === 'AB' ? [version, baseline] : [baseline, version];
      expect(pair).deep.equal({ kind: 'pair', input: 'q', expected: null, a, b });
    }
  });
});

describe('a comparison of versions', () => {
  const compared = (
    winners: readonly WinningSide[],
    [v = 10, b = 10] = [10, 10],
    isFlipped = false,
  ): ComparedTestCase => ({
    ...{ input: 'q', versionResponse: 'v'.repeat(v), baselineResponse: 'b'.repeat(b) },
    comparisons: winners.map((winner) => ({ axis: 'clarity', label: 'Clarity', winner, rationale, isFlipped })),
  });

  it('counts wins by case and axis, and reports how many verdicts a swap of the replies flips, and how their lengths compare', () => {
    const cases = [
      ['version', 'version', 'tie', 'baseline'],
      ['tie', 'tie', 'tie', 'baseline'],
      ['version', 'baseline'],
    ];
    const all = cases.map((winners) => compared(winners as WinningSide[]));
    expect(summarizeComparisons(all)).deep.equal({ versionWins: 3, baselineWins: 3, ties: 4 });
    expect(computeComparisonStatistics(all)).deep.include({ caseWins: { versionWins: 1, baselineWins: 1, ties: 1 } });
    const flipped = [compared(['tie', 'tie'], [30, 20], true), compared(['version', 'tie'], [30, 20])];
    expect(computeComparisonStatistics(flipped)).include({ flipRate: 0.5, lengthRatio: 1.5, lengthConfounded: true });
    const none = { flipRate: 0, lengthRatio: null, pValue: 1, lengthConfounded: false };
    expect(computeComparisonStatistics([])).include(none);
  });

  it('reports when the result is not significant', () => {
    for (const [wins, losses, conclusion] of [
      [5, 0, /^Not significant: 5 decided cases are too few/],
      [6, 0, /^Significant: .* better \(p = 0\.031\)/],
      [14, 6, /^Not significant: the version wins 14 of 20/],
      [15, 5, /^Significant: the version wins 15 of 20/],
      [5, 15, /worse/],
    ] as const) {
      const cases = Array.from({ length: wins + losses }, (_, n) => compared([n < wins ? 'version' : 'baseline']));
      expect(computeComparisonStatistics(cases).conclusion).match(conclusion);
    }
  });

  it('warns if the version with the longer replies wins', () => {
    const longer = { version: 130, baseline: 100, winner: 'version' as const };
    const shorter = { version: 100, baseline: 130, winner: 'version' as const };
    const tie = { ...longer, winner: 'tie' as const };
    for (const [verdicts, isExplained] of [
      [[longer, longer, longer, longer, shorter], true],
      [[longer, longer, longer, shorter], false],
      [[{ ...longer, version: 125 }], false],
      [
        [
          { ...longer, version: 120 },
          { ...longer, version: 120 },
        ],
        false,
      ],
      [[tie], false],
      [[longer, tie, tie], true],
      [[longer, { ...longer, version: 100 }], true],
      [[{ ...shorter, winner: 'baseline' }], true],
    ] as const) {
      expect(isWinnerExplainedByLength(verdicts), JSON.stringify(verdicts)).equal(isExplained);
    }
  });
});

describe('the statistics of judging', () => {
  it("equal the published sign test p-values and two-sided 95 % quantiles of Student's t", () => {
    for (const [wins, losses, p] of [
      [0, 0, 1],
      [1, 0, 1],
      [5, 0, 0.0625],
      [6, 0, 0.03125],
      [15, 5, 0.0414],
      [14, 6, 0.1153],
      [10, 10, 1],
    ] as const) {
      expect(signTestPValue(wins, losses), `${wins}:${losses}`).closeTo(p, 0.00005);
      expect(signTestPValue(losses, wins)).equal(signTestPValue(wins, losses));
    }
    const quantiles = { 1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 9: 2.262, 19: 2.093, 30: 2.042, 120: 1.98 };
    for (const [degrees, t] of Object.entries(quantiles)) expect(studentTQuantile(Number(degrees))).closeTo(t, 0.0005);
  });

  it('round means exactly to two decimals, and give a confidence interval from two values on', () => {
    expect(meanConfidenceInterval([3])).equal(null);
    const interval = meanConfidenceInterval([1, 2, 3, 4, 5]);
    expect(interval?.mean).equal(3);
    expect(interval?.low).closeTo(1.037, 0.001);
    expect(interval?.high).closeTo(4.963, 0.001);
    expect(meanConfidenceInterval([2, 2, 2])).deep.equal({ mean: 2, low: 2, high: 2 });
    const means = [[1, 2, 2], [4.67, 3.33, 2], [0.1, 0.2], [1.01, 1.02], []].map(meanScore);
    expect(means).deep.equal([1.67, 3.33, 0.15, 1.02, null]);
  });

  it('tell whether the judge and the generator belong to one model family', () => {
    const same = [
      ...['gpt-4o gpt-4.1-mini', 'o3 openai/gpt-4o', 'openai/gpt-oss-120b chatgpt-4o-latest'],
      ...['gemini-2.5-pro gemma-3-27b-it', 'qwen2.5-coder-1.5b-instruct-q4_k_m Qwen/Qwen3-32B'],
      ...['deepseek-r1-distill-llama-70b meta-llama/Llama-3.3-70B-Instruct', 'groq/mixtral-8x7b mistral-large'],
      'house-model other/house-model:free',
    ];
    const different = [
      ...['gpt-4o claude-sonnet-4', 'deepseek-r1-distill-llama-70b qwen3', 'solo1 gpt-4o'],
      ...['house-model another-model', 'house-model gpt-4o'],
    ];
    for (const pair of [...same, ...different]) {
      const [evaluator = '', generator = ''] = pair.split(' ');
      expect(isSameModelFamily(evaluator, generator), pair).equal(same.includes(pair));
      expect(isSameModelFamily(generator, evaluator), pair).equal(same.includes(pair));
    }
  });
});
