import { type AnsweredCase, type EvalScores, evalScores } from '#src/domain/judging/eval-scores.ts';
import type { EvaluationRun } from './evaluations.model.ts';

/** What a version shows of a run; null of a run that has judged no prompt of it, or nothing yet. */
export function evalScoresOfRun(
  run: Pick<EvaluationRun, 'specification' | 'results' | 'failedUnits' | 'finishedAt'>,
  parent: { cases: readonly AnsweredCase[] } | null,
): EvalScores | null {
  const { specification, results, failedUnits, finishedAt } = run;
  if (specification.kind !== 'evaluate' || results?.kind !== 'evaluate' || finishedAt === null) return null;
  const { rubric, rubricVersion, evaluatorModel, generationModel } = specification;
  const judging = { rubric, rubricVersion, evaluatorModel, generationModel };
  return evalScores({ result: results, ...judging, failedUnits, finishedAt, parent });
}
