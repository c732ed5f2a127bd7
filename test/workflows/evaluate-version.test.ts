import { CancelledFailure } from '@temporalio/common';
import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import type { EvaluationActivities } from '#activities/evaluation.ts';
import type {
  AnswerCaseInput,
  EvaluationProgress,
  RunJudgeCallInput,
  ScoreEvaluationInput,
} from '#src/contracts/evaluation.ts';
import { evaluationCaseWorkflowId } from '#src/contracts/workflow-ids.ts';
import { stageQueryName } from '#src/contracts/workflow-runs.ts';
import { judgeCallName } from '#src/domain/judging/judgement.ts';
import { appError } from '#src/errors.ts';
import { searchAttributes } from '#src/temporal/connection.ts';
import { type StandingWorker, standingWorker } from '#test/support/standing-worker.ts';
import { failFirstAttempt, oneCall, stubEvaluation, untilCancelled } from '#test/support/stub-activities.ts';
import { attributeOf, detailsOf, failureOf } from '#test/support/workflow-run.ts';

describe('an evaluation or comparison of versions', () => {
  let worker: StandingWorker;
  before(async () => {
    worker = await standingWorker();
  });

  const evaluate = (activities: EvaluationActivities, workflow = 'evaluateVersion', runId = `test-${uuidv7()}`) =>
    worker.start(workflow, activities, {
      workflowId: runId,
      args: [{ orgId: 'org', runId }],
      memo: { attempt: 2 },
      typedSearchAttributes: searchAttributes({ OrgId: 'org', JobKind: 'evaluate' }),
    });
  const nameOf = ({ name, input }: { name: string; input: unknown }) =>
    name === 'judgeUnit' ? judgeCallName((input as RunJudgeCallInput).unit) : name;

  it('judges the prompt in parallel with the cases, and each case after its answer', async () => {
    const { activities, calls } = stubEvaluation();
    const run = await evaluate(activities);
    const runId = run.workflowId;
    expect(await run.result()).deep.equal({
      spent: { calls: 5, cached: 0, inputTokens: 50, completionTokens: 10, costUsd: 2.5 },
      failed: [],
    });
    const names = calls.map(nameOf);
    expect(names.toSorted()).deep.equal(
      ['planEvaluation', 'prompt', 'answerCase', 'answerCase', 'case 1', 'case 2', 'scoreEvaluation'].toSorted(),
    );
    for (const caseIndex of [0, 1]) {
      const answered = calls.findIndex(
        ({ name, input }) => name === 'answerCase' && (input as AnswerCaseInput).caseIndex === caseIndex,
      );
      expect(answered).below(names.indexOf(`case ${caseIndex + 1}`));
    }
    expect(calls.at(-1)).deep.equal({
      name: 'scoreEvaluation',
      input: { orgId: 'org', runId, attempt: 2, failed: [] },
    });
    expect(await attributeOf(run, 'Stage')).equal('done');
    expect(await detailsOf(run)).match(/50 input tokens, 10 output tokens, 2\.5000 US dollars/);
    const ofCase = worker.client.workflow.getHandle(evaluationCaseWorkflowId(runId, 0));
    expect(await attributeOf(ofCase, 'JobKind')).equal('evaluate');
    expect(await attributeOf(ofCase, 'OrgId')).equal('org');
  });

  it('compares both prompts, and on each axis the two answers of each case in both orders', async () => {
    const { activities, calls } = stubEvaluation({ cases: [true] });
    const run = await evaluate(activities, 'compareVersions');
    await run.result();
    const names = calls.map(nameOf);
    expect(names).to.include.members(['prompt', 'baseline prompt', 'case 1/accuracy AB', 'case 1/accuracy BA']);
    expect(names.filter((name) => name === 'answerCase')).length(2);
    expect(names.filter((name) => name.startsWith('case 1/'))).length(10);
  });

  it('continues when a judge call fails, and reports the failed calls at the end', async () => {
    const failed = [{ unit: 'case 1 answer', code: 'context_too_long' }];
    const answerCase = async ({ caseIndex }: AnswerCaseInput) => (caseIndex === 0 ? { ...oneCall, failed } : oneCall);
    const scoreEvaluation = async () => {
      throw appError('eval_incomplete', { detail: 'Something is missing.' });
    };
    const { activities, calls } = stubEvaluation({}, { answerCase, scoreEvaluation });
    const run = await evaluate(activities);
    expect(await failureOf(run)).property('type', 'eval_incomplete');
    expect(await detailsOf(run))
      .match(/^Failed: \*\*eval_incomplete/)
      .and.match(/input tokens.* 1 failed: case 1 answer \(context_too_long\)/);
    const score = calls.find(({ name }) => name === 'scoreEvaluation')?.input as ScoreEvaluationInput;
    expect(score.failed).deep.equal(failed);
    expect(calls.map(nameOf)).not.include('case 1');
    const error = { code: 'eval_incomplete', message: 'Something is missing.' };
    const recorded = { orgId: 'org', runId: run.workflowId, attempt: 2, error };
    expect(calls.at(-1)).deep.equal({ name: 'recordEvaluationFailure', input: recorded });
    expect(await attributeOf(run, 'ErrorCode')).equal('eval_incomplete');
  });

  it('retries a judge call after a transient fault', async () => {
    const judgeUnit = async () => {
      failFirstAttempt(appError('model_unavailable', { retryAfterSeconds: 0.01 }));
      return oneCall;
    };
    const { activities, calls } = stubEvaluation({ cases: [] }, { judgeUnit });
    const run = await evaluate(activities);
    expect(await run.result()).deep.include({ failed: [] });
    expect(calls.filter(({ name }) => name === 'judgeUnit')).length(2);
  });

  it('fails at once with version_not_found when the version no longer exists', async () => {
    const gone = async () => {
      throw appError('version_not_found');
    };
    const { activities, calls } = stubEvaluation({}, { answerCase: gone, judgeUnit: gone });
    const run = await evaluate(activities);
    expect(await failureOf(run)).property('type', 'version_not_found');
    expect(calls.map(({ name }) => name)).not.include('scoreEvaluation');
  });

  it('cancels the runs of its cases when it is cancelled, and waits for their end', async () => {
    const running = new Set<number>();
    const answerCase = async ({ caseIndex }: AnswerCaseInput) => {
      running.add(caseIndex);
      return untilCancelled().finally(() => running.delete(caseIndex));
    };
    const { activities, calls, untilCalled } = stubEvaluation({}, { answerCase });
    const run = await evaluate(activities);
    const runId = run.workflowId;
    await untilCalled('answerCase', 2);
    expect(running.size).equal(2);
    const progress: EvaluationProgress = await run.query(stageQueryName);
    expect(progress.stage).equal('judge');
    await run.cancel();
    expect(await failureOf(run)).instanceOf(CancelledFailure);
    expect(running.size).equal(0);
    const recorded = { name: 'recordEvaluationCancellation', input: { orgId: 'org', runId, attempt: 2 } };
    expect(calls.at(-1)).deep.equal(recorded);
    const ofCase = worker.client.workflow.getHandle(evaluationCaseWorkflowId(runId, 0));
    expect((await ofCase.describe()).status.name).equal('CANCELLED');
  });

  it('starts again while the cases of a terminated run are still open', async () => {
    const gate = Promise.withResolvers<typeof oneCall>();
    const { activities, untilCalled } = stubEvaluation({}, { answerCase: () => gate.promise });
    const runId = `test-${uuidv7()}`;
    const first = await evaluate(activities, 'evaluateVersion', runId);
    await untilCalled('answerCase');
    await first.terminate();
    const second = await evaluate(activities, 'evaluateVersion', runId);
    gate.resolve(oneCall);
    expect(await second.result()).deep.include({ failed: [] });
  });
});
