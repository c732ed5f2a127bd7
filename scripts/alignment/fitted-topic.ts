import { areaUnderCurve, calibrationError, fitLogistic, sigmoid } from '../logistic-regression.ts';
import type { ClincAgent, Utterance } from './clinc.ts';

/** How well scores separate on-topic from off-topic utterances of agents that were left out of the fit. */
export type TopicQuality = {
  meanAuc: number;
  worstAuc: number;
  worstAgent: string;
  outOfScopeAuc: number;
  truePositiveRate: number;
  falsePositiveRate: number;
  /** Expected calibration error with both classes weighted equally. */
  calibrationError: number;
};

export type FittedTopic = {
  /** The intercept is the last coefficient. */
  coefficients: number[];
  /** Standard deviation of each coefficient over the leave-one-agent-out fits. */
  spread: number[];
  quality: TopicQuality;
};

export type PickFeatures = (utterance: Utterance) => readonly number[];

/** Fits the topic score on all agents, and measures its quality by leave-one-agent-out cross-validation. */
export function fitTopic(agents: readonly ClincAgent[], pick: PickFeatures): FittedTopic {
  const samplesOf = (agent: ClincAgent) =>
    agent.utterances.map((utterance) => ({ features: pick(utterance), isPositive: utterance.isPositive }));
  const coefficientsOf = (some: readonly ClincAgent[]) => fitLogistic(some.flatMap(samplesOf));
  const folds = agents.map((held) => {
    const coefficients = coefficientsOf(agents.filter((agent) => agent !== held));
    return { held, coefficients, score: (utterance: Utterance) => sigmoid(coefficients, pick(utterance)) };
  });
  const coefficients = coefficientsOf(agents).map((value) => Number(value.toFixed(3)));
  return {
    coefficients,
    spread: coefficients.map((_, i) => deviation(folds.map((fold) => fold.coefficients[i] ?? 0))),
    quality: topicQuality(folds.map(({ held, score }) => ({ agent: held, score }))),
  };
}

export function topicQuality(
  judged: readonly { agent: ClincAgent; score: (utterance: Utterance) => number }[],
): TopicQuality {
  const byAgent = judged.map(({ agent, score }) => {
    const scored = agent.utterances.map((utterance) => ({ ...utterance, score: score(utterance) }));
    const outOfScope = scored.filter(({ isPositive, isOutOfScope }) => isPositive || isOutOfScope);
    return { name: agent.name, scored, auc: areaUnderCurve(scored), outOfScopeAuc: areaUnderCurve(outOfScope) };
  });
  const all = byAgent.flatMap(({ scored }) => scored);
  const rate = (isPositive: boolean) => {
    const group = all.filter((each) => each.isPositive === isPositive);
    return group.filter(({ score }) => score >= 0.5).length / group.length;
  };
  const worst = byAgent.reduce((least, each) => (each.auc < least.auc ? each : least));
  return {
    meanAuc: mean(byAgent.map(({ auc }) => auc)),
    worstAuc: worst.auc,
    worstAgent: worst.name,
    outOfScopeAuc: mean(byAgent.map(({ outOfScopeAuc }) => outOfScopeAuc)),
    truePositiveRate: rate(true),
    falsePositiveRate: rate(false),
    calibrationError: calibrationError(all),
  };
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function deviation(values: readonly number[]): number {
  return Math.sqrt(mean(values.map((value) => (value - mean(values)) ** 2)));
}
