import { WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
import {
  defineQuery,
  executeChild,
  proxyActivities,
  setHandler,
  setWorkflowOptions,
  sleep,
} from '@temporalio/workflow';
import type { EvaluationActivities } from '#activities/evaluation.ts';
import type {
  EvaluateCaseInput,
  EvaluationInput,
  EvaluationPlan,
  EvaluationProgress,
  EvaluationStage,
  EvaluationStepsResult,
} from '#src/contracts/evaluation.ts';
import { evaluationCaseWorkflowId } from '#src/contracts/workflow-ids.ts';
import { stageQueryName } from '#src/contracts/workflow-runs.ts';
import {
  addJudgeTokenUsage,
  type ComparedVersionSide,
  formatJudgeTokenUsage,
  type JudgeCall,
  judgeCallName,
  judgeCallsOfBothPrompts,
  judgeCallsOfPrompt,
  judgeCallsOfReply,
  judgeCallsOfReplyPair,
  zeroJudgeTokenUsage,
} from '#src/domain/judging/judgement.ts';
import { namesOfFailedJudgeCalls } from '#src/domain/judging/outcome.ts';
import { readJobAttemptOfRun, recordUnsuccessfulRunEnd } from './failure.ts';
import { jobUpdatePolicy, modelCallPolicy, pinnedToWorkerVersion, quickActivityPolicy } from './policies.ts';
import { appendRunProgress, searchAttributesForChildWorkflow, showRunProgress, showRunStage } from './visibility.ts';

const { planEvaluation, scoreEvaluation } = proxyActivities<EvaluationActivities>(quickActivityPolicy);
const { answerCase, judgeUnit } = proxyActivities<EvaluationActivities>(modelCallPolicy);
const { recordEvaluationFailure, recordEvaluationCancellation } =
  proxyActivities<EvaluationActivities>(jobUpdatePolicy);

const stageQuery = defineQuery<EvaluationProgress>(stageQueryName);

/** Golden cases that run concurrently: equal to the limit of concurrent model calls per organization and model. */
const concurrentCases = 8;

type Work = { units: JudgeCall[]; mode: EvaluateCaseInput['mode'] };

export function evaluateVersion(input: EvaluationInput): Promise<EvaluationStepsResult> {
  return runEvaluation(input, ({ rubric, judgesPrompt }) => ({
    units: judgesPrompt ? judgeCallsOfPrompt(rubric) : [],
    mode: rubric,
  }));
}

export function compareVersions(input: EvaluationInput): Promise<EvaluationStepsResult> {
  return runEvaluation(input, () => ({ units: judgeCallsOfBothPrompts(), mode: 'pairwise' }));
}

/**
 * Judges the prompts and runs each golden case as a child workflow, then aggregates the scores. A failed answer or
 * verdict does not end the others: the result lists the failures, and a retry repeats only these.
 */
async function runEvaluation(
  input: EvaluationInput,
  workOf: (plan: EvaluationPlan) => Work,
): Promise<EvaluationStepsResult> {
  let progress: EvaluationProgress = { stage: 'queued', calls: 0, spent: zeroJudgeTokenUsage, failed: [] };
  setHandler(stageQuery, () => progress);

  function enter(stage: EvaluationStage, details: string): void {
    progress = { ...progress, stage };
    showRunStage(stage, details);
  }
  function add({ spent, failed }: EvaluationStepsResult): void {
    progress = {
      ...progress,
      spent: addJudgeTokenUsage(progress.spent, spent),
      failed: [...progress.failed, ...failed],
    };
    showRunProgress(progressLine(progress));
  }

  try {
    enter('plan', 'Planning the evaluation.');
    const plan = await planEvaluation(input);
    const { units, mode } = workOf(plan);
    progress = { ...progress, calls: plan.calls };
    enter('judge', progressLine(progress));
    await allOf([
      ...units.map((unit) => judge(input, unit).then(add)),
      withConcurrency(plan.cases, concurrentCases, async (hasReference, caseIndex) => {
        add(await runCase({ ...input, caseIndex, hasReference, mode }, plan.cases.length));
      }),
    ]);
    enter('score', `Aggregating the scores: ${progressLine(progress)}`);
    const { spent, failed } = progress;
    await scoreEvaluation({ ...input, ...readJobAttemptOfRun(), failed });
    progress = { ...progress, stage: 'done' };
    showRunStage('done', `Done: ${progressLine(progress)}`);
    return { spent, failed };
  } catch (error) {
    const end = await recordUnsuccessfulRunEnd(error, {
      cancelled: () => recordEvaluationCancellation({ ...input, ...readJobAttemptOfRun() }),
      failed: (failure) => recordEvaluationFailure({ ...input, ...readJobAttemptOfRun(), error: failure }),
    });
    appendRunProgress(progressLine(progress));
    throw end;
  }
}

/** Generates the reply of each version to a case, and judges the replies. Ends early if a reply is missing. */
export async function evaluateCase(input: EvaluateCaseInput): Promise<EvaluationStepsResult> {
  const { mode, caseIndex, hasReference, ...run } = input;
  const sides: ComparedVersionSide[] = mode === 'pairwise' ? ['version', 'baseline'] : ['version'];
  const units =
    mode === 'pairwise'
      ? judgeCallsOfReplyPair({ caseIndex, hasReference })
      : judgeCallsOfReply(mode, { caseIndex, hasReference });
  const done: EvaluationStepsResult = { spent: zeroJudgeTokenUsage, failed: [] };

  function add({ spent, failed }: EvaluationStepsResult): void {
    done.spent = addJudgeTokenUsage(done.spent, spent);
    done.failed.push(...failed);
    const missing = done.failed.map(({ unit, code }) => `\n- ${unit} failed: ${code}`).join('');
    showRunProgress(`Of ${sides.length + units.length}: ${formatJudgeTokenUsage(done.spent)}.${missing}`);
  }

  showRunStage('answer', 'Generating the replies to the case.');
  await allOf(
    sides.map(async (side) =>
      add(await answerCase.executeWithOptions({ summary: `answer of the ${side}` }, [{ ...run, caseIndex, side }])),
    ),
  );
  if (done.failed.length > 0) return done;
  showRunStage('judge', `Making ${units.length} judgements.`);
  await allOf(units.map(async (unit) => add(await judge(run, unit))));
  showRunStage('done', `Done: ${formatJudgeTokenUsage(done.spent)}.`);
  return done;
}

function judge(run: EvaluationInput, unit: JudgeCall): Promise<EvaluationStepsResult> {
  return judgeUnit.executeWithOptions({ summary: judgeCallName(unit) }, [{ ...run, unit }]);
}

function progressLine({
  calls,
  spent,
  failed,
}: Pick<EvaluationProgress, 'calls' | keyof EvaluationStepsResult>): string {
  const missing = failed.length === 0 ? '' : ` ${failed.length} failed: ${namesOfFailedJudgeCalls(failed)}.`;
  return `Of ${calls} answers: ${formatJudgeTokenUsage(spent)}.${missing}`;
}

/** Waits for all steps before it throws the first error, so that no step continues after the end of the run. */
async function allOf(steps: readonly Promise<void>[]): Promise<void> {
  const ended = await Promise.allSettled(steps);
  for (const step of ended) if (step.status === 'rejected') throw step.reason;
}

async function withConcurrency<T>(
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

async function runCase(input: EvaluateCaseInput, caseCount: number): Promise<EvaluationStepsResult> {
  const { runId, caseIndex } = input;
  for (;;) {
    try {
      return await executeChild<(input: EvaluateCaseInput) => Promise<EvaluationStepsResult>>('evaluateCase', {
        workflowId: evaluationCaseWorkflowId(runId, caseIndex),
        args: [input],
        staticSummary: `Case ${caseIndex + 1} of ${caseCount}`,
        typedSearchAttributes: searchAttributesForChildWorkflow(),
      });
    } catch (error) {
      // The start is repeated until the child workflow of an earlier, terminated attempt has closed.
      if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
      await sleep('1 second');
    }
  }
}

// A whole evaluation runs on one version, so that all its cases are judged alike.
for (const workflow of [evaluateVersion, compareVersions, evaluateCase]) {
  setWorkflowOptions<[never], unknown>(pinnedToWorkerVersion, workflow);
}
