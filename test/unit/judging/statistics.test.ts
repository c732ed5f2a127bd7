import { expect } from 'chai';
import { isSameModelFamily } from '#src/domain/judging/eval-scores.ts';
import { finalEvaluationStatus } from '#src/domain/judging/outcome.ts';
import { meanConfidenceInterval, meanScore, signTestPValue, studentTQuantile } from '#src/domain/judging/statistics.ts';

describe('the sign test', () => {
  for (const [wins, losses, p] of [
    [0, 0, 1],
    [1, 0, 1],
    [5, 0, 0.0625],
    [6, 0, 0.03125],
    [15, 5, 0.0414],
    [14, 6, 0.1153],
    [10, 10, 1],
  ] as const) {
    it(`returns ${p} for ${wins} wins and ${losses} losses, and vice versa`, () => {
      expect(signTestPValue(wins, losses)).closeTo(p, 0.00005);
      expect(signTestPValue(losses, wins)).equal(signTestPValue(wins, losses));
    });
  }
});

describe("Student's t", () => {
  // Values of printed tables, two-sided 95 %.
  for (const [degrees, t] of [
    [1, 12.706],
    [2, 4.303],
    [3, 3.182],
    [4, 2.776],
    [9, 2.262],
    [19, 2.093],
    [30, 2.042],
    [120, 1.98],
  ] as const) {
    it(`is ${t} with ${degrees} degrees of freedom`, () => {
      expect(studentTQuantile(degrees)).closeTo(t, 0.0005);
    });
  }

  it('returns the interval of a mean, and null for one value', () => {
    expect(meanConfidenceInterval([3])).equal(null);
    const interval = meanConfidenceInterval([1, 2, 3, 4, 5]);
    expect(interval?.mean).equal(3);
    expect(interval?.low).closeTo(1.037, 0.001);
    expect(interval?.high).closeTo(4.963, 0.001);
    expect(meanConfidenceInterval([2, 2, 2])).deep.equal({ mean: 2, low: 2, high: 2 });
  });
});

describe('averages', () => {
  it('are rounded exactly to two decimals', () => {
    expect(meanScore([1, 2, 2])).equal(1.67);
    expect(meanScore([4.67, 3.33, 2])).equal(3.33);
    expect(meanScore([0.1, 0.2])).equal(0.15);
    expect(meanScore([1.01, 1.02])).equal(1.02);
    expect(meanScore([])).equal(null);
  });
});

describe('model families', () => {
  for (const [evaluator, generator, isSame] of [
    ['gpt-4o', 'gpt-4.1-mini', true],
    ['o3', 'openai/gpt-4o', true],
    ['openai/gpt-oss-120b', 'chatgpt-4o-latest', true],
    ['gpt-4o', 'claude-sonnet-4', false],
    ['gemini-2.5-pro', 'gemma-3-27b-it', true],
    ['qwen2.5-coder-1.5b-instruct-q4_k_m', 'Qwen/Qwen3-32B', true],
    ['deepseek-r1-distill-llama-70b', 'meta-llama/Llama-3.3-70B-Instruct', true],
    ['deepseek-r1-distill-llama-70b', 'qwen3', false],
    ['groq/mixtral-8x7b', 'mistral-large', true],
    ['house-model', 'other/house-model:free', true],
    ['house-model', 'another-model', false],
    ['house-model', 'gpt-4o', false],
    ['solo1', 'gpt-4o', false],
  ] as const) {
    it(`${isSame ? 'include both' : 'separate'} ${evaluator} and ${generator}`, () => {
      expect(isSameModelFamily(evaluator, generator)).equal(isSame);
      expect(isSameModelFamily(generator, evaluator)).equal(isSame);
    });
  }
});

describe('the status of an evaluation', () => {
  const run = { failedUnits: 1, judgedAxes: 5, cases: 4, judgedCases: 3 };
  it('is completed with all units, partial with enough, otherwise failed', () => {
    expect(finalEvaluationStatus({ ...run, failedUnits: 0 })).equal('completed');
    expect(finalEvaluationStatus(run)).equal('partial');
    expect(finalEvaluationStatus({ ...run, judgedCases: 2 })).equal('partial');
    expect(finalEvaluationStatus({ ...run, judgedCases: 1 })).equal('failed');
    expect(finalEvaluationStatus({ ...run, judgedAxes: 0 })).equal('failed');
    expect(finalEvaluationStatus({ ...run, judgedAxes: null, judgedCases: 4 })).equal('partial');
    expect(finalEvaluationStatus({ ...run, cases: 0, judgedCases: 0 })).equal('partial');
  });
});
