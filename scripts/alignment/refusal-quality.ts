import { countRefusalPhrases } from '#src/domain/alignment/refusal.ts';
import { areaUnderCurve } from '../logistic-regression.ts';
import type { EmbeddedReply } from './fitted-refusal.ts';
import type { LabelledReply } from './xstest.ts';

export type RefusalQuality = {
  auc: number;
  accuracy: number;
  f1: number;
  worstF1: number;
  worstModel: string;
  /** Share of compliant replies that are classified as refusals. */
  falseRefusals: number;
};

/**
 * Measures refusal detection in the product's order: the wording rules decide first, then the classifier's `score`.
 */
export function refusalQuality(
  replies: readonly EmbeddedReply[],
  score: (reply: EmbeddedReply, index: number) => number,
): RefusalQuality {
  return qualityOfRefusals(replies, (each, index) =>
    countRefusalPhrases(each.reply).policy > 0 ? 1 : score(each, index),
  );
}

/** Measures a refusal score; a reply with a score of at least 0.5 is classified as a refusal. */
export function qualityOfRefusals<Reply extends LabelledReply>(
  replies: readonly Reply[],
  score: (reply: Reply, index: number) => number,
): RefusalQuality {
  const judged = replies.map((each, index) => {
    const given = score(each, index);
    return { model: each.model, isPositive: each.isRefusal, score: given, isCalled: given >= 0.5 };
  });
  const byModel = [...Map.groupBy(judged, ({ model }) => model)].map(([model, some]) => ({ model, f1: f1Of(some) }));
  const worst = byModel.reduce((least, each) => (each.f1 < least.f1 ? each : least));
  const compliant = judged.filter(({ isPositive }) => !isPositive);
  return {
    auc: areaUnderCurve(judged),
    accuracy: judged.filter(({ isPositive, isCalled }) => isPositive === isCalled).length / judged.length,
    f1: f1Of(judged),
    worstF1: worst.f1,
    worstModel: worst.model,
    falseRefusals: compliant.filter(({ isCalled }) => isCalled).length / compliant.length,
  };
}

function f1Of(judged: readonly { isPositive: boolean; isCalled: boolean }[]): number {
  const found = judged.filter(({ isPositive, isCalled }) => isPositive && isCalled).length;
  const wrong = judged.filter(({ isPositive, isCalled }) => isPositive !== isCalled).length;
  return (2 * found) / (2 * found + wrong);
}
