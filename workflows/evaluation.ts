import { WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
import { defineQuery, executeChild, proxyActivities, setHandler, sleep } from '@temporalio/workflow';
import type { EvaluationActivities } from '#activities/evaluation.ts';
import type {
  EvaluateCaseInput,
  EvaluationInput,
  EvaluationPlan,
  EvaluationProgress,
  EvaluationStage,
  StepsResult,
} from '#src/contracts/evaluation.ts';
import { caseWorkflowId } from '#src/contracts/workflow-ids.ts';
import { stageQueryName } from '#src/contracts/workflow-runs.ts';
import { nothingSpent, plusSpending, spendingLine } from '#src/domain/judging/judgement.ts';
import { namesOfFailed } from '#src/domain/judging/results.ts';
import { type Unit, unitName } from '#src/domain/judging/units.ts';
import { attemptOfJob, endOfRun } from './failure.ts';
import { question, quick, record } from './policies.ts';
import { attributesOfPart, showProgress, showStage, showStanding } from './visibility.ts';

const { planEvaluation, scoreEvaluation } = proxyActivities<EvaluationActivities>(quick);
const { judgeUnit } = proxyActivities<EvaluationActivities>(question);
const { recordEvaluationFailure, recordEvaluationCancellation } = proxyActivities<EvaluationActivities>(record);

const stageQuery = defineQuery<EvaluationProgress>(stageQueryName);

/** Of one organization and model so many calls are made at once. */
const casesAtOnce = 8;

/** What is judged of a plan, and how its cases are. */
type Work = { units: Unit[]; mode: EvaluateCaseInput['mode'] };

/**
 * Answers and judges what the row of the run says, each case in a run of its own, and adds it up. What one step fails
 * with does not end the others: the end says which are missing, and an attempt after it asks for those alone.
 */
export async function runEvaluation(
  input: EvaluationInput,
  workOf: (plan: EvaluationPlan) => Work,
): Promise<StepsResult> {
  let progress: EvaluationProgress = { stage: 'queued', calls: 0, spent: nothingSpent, failed: [] };
  setHandler(stageQuery, () => progress);

  function enter(stage: EvaluationStage, details: string): void {
    progress = { ...progress, stage };
    showStage(stage, details);
  }
  function add({ spent, failed }: StepsResult): void {
    progress = { ...progress, spent: plusSpending(progress.spent, spent), failed: [...progress.failed, ...failed] };
    showProgress(progressLine(progress));
  }

  try {
    enter('plan', 'Looking at what is to be evaluated.');
    const plan = await planEvaluation(input);
    const { units, mode } = workOf(plan);
    progress = { ...progress, calls: plan.calls };
    enter('judge', progressLine(progress));
    await allOf([
      ...units.map((unit) => judge(input, unit).then(add)),
      inWindow(plan.cases, casesAtOnce, async (hasReference, caseIndex) => {
        add(await evaluateCaseOf({ ...input, caseIndex, hasReference, mode }, plan.cases.length));
      }),
    ]);
    enter('score', `Adding up: ${progressLine(progress)}`);
    const { spent, failed } = progress;
    await scoreEvaluation({ ...input, ...attemptOfJob(), failed });
    progress = { ...progress, stage: 'done' };
    showStage('done', `Done: ${progressLine(progress)}`);
    return { spent, failed };
  } catch (error) {
    const end = await endOfRun(error, {
      cancelled: () => recordEvaluationCancellation({ ...input, ...attemptOfJob() }),
      failed: (failure) => recordEvaluationFailure({ ...input, ...attemptOfJob(), error: failure }),
    });
    showStanding(progressLine(progress));
    throw end;
  }
}

export function judge(run: EvaluationInput, unit: Unit): Promise<StepsResult> {
  return judgeUnit.executeWithOptions({ summary: unitName(unit) }, [{ ...run, unit }]);
}

export function progressLine({ calls, spent, failed }: Pick<EvaluationProgress, 'calls' | keyof StepsResult>): string {
  const missing = failed.length === 0 ? '' : ` ${failed.length} failed: ${namesOfFailed(failed)}.`;
  return `Of ${calls} answers: ${spendingLine(spent)}.${missing}`;
}

/** Waits for all of them, so that nothing goes on behind the end of a run; then throws what the first has thrown. */
export async function allOf(steps: readonly Promise<void>[]): Promise<void> {
  const ended = await Promise.allSettled(steps);
  for (const step of ended) if (step.status === 'rejected') throw step.reason;
}

async function inWindow<T>(
  items: readonly T[],
  size: number,
  work: (item: T, index: number) => Promise<void>,
): Promise<void> {
  let next = 0;
  const workOn = async () => {
    for (let index = next++; index < items.length; index = next++) {
      const item = items[index];
      if (item !== undefined) await work(item, index);
    }
  };
  await allOf(Array.from({ length: size }, workOn));
}

async function evaluateCaseOf(input: EvaluateCaseInput, of: number): Promise<StepsResult> {
  const { runId, caseIndex } = input;
  for (;;) {
    try {
      return await executeChild<(input: EvaluateCaseInput) => Promise<StepsResult>>('evaluateCase', {
        workflowId: caseWorkflowId(runId, caseIndex),
        args: [input],
        staticSummary: `Case ${caseIndex + 1} of ${of}`,
        typedSearchAttributes: attributesOfPart(),
      });
    } catch (error) {
      // That of an attempt that was ended by force has yet to close.
      if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
      await sleep('1 second');
    }
  }
}
