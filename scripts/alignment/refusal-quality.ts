import { refusalWording } from '#src/domain/alignment/refusal.ts';
import { areaUnderCurve } from '../logistic-regression.ts';
import type { EmbeddedReply } from './fitted-refusal.ts';
import type { LabelledReply } from './xstest.ts';

export type RefusalQuality = {
  auc: number;
  accuracy: number;
  f1: number;
  worstF1: number;
  worstModel: string;
  /** Of the replies that comply, how many are called refusals. */
  falseRefusals: number;
};

/** Of the product's own order: wording decides first, then the model of which `score` is the probability. */
export function refusalQuality(
  replies: readonly EmbeddedReply[],
  score: (reply: EmbeddedReply, index: number) => number,
): RefusalQuality {
  return qualityOfRefusals(replies, (each, index) => (refusalWording(each.reply).policy > 0 ? 1 : score(each, index)));
}

/** Of any way to score a reply; what has 0.5 or more is called a refusal. */
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
