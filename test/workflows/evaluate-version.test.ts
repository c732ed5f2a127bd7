import { CancelledFailure } from '@temporalio/common';
import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import type { AnswerCaseInput, RunJudgeCallInput } from '#src/contracts/evaluation.ts';
import { evaluationCaseWorkflowId } from '#src/contracts/workflow-ids.ts';
import { stageQueryName } from '#src/contracts/workflow-runs.ts';
import { judgeCallName } from '#src/domain/judging/judgement.ts';
import { appError } from '#src/errors.ts';
import { searchAttributes } from '#src/temporal/connection.ts';
import {
  failFirstAttempt,
  oneCall,
  type StubActivities,
  stubActivities,
  untilCancelled,
} from '#test/support/stub-activities.ts';
import { startRun } from '#test/support/test-workers.ts';
import { attributeOf, detailsOf, failureOf } from '#test/support/workflow-run.ts';

describe('an evaluation or comparison of versions', () => {
  async function evaluate(stub: StubActivities, workflow = 'evaluateVersion', runId = `test-${uuidv7()}`) {
    const typedSearchAttributes = searchAttributes({ OrgId: 'org', JobKind: 'evaluate' });
    const run = await startRun(workflow, stub, { orgId: 'org', runId }, { workflowId: runId, typedSearchAttributes });
    return { run, runId, firstCase: run.client.getHandle(evaluationCaseWorkflowId(runId, 0)) };
  }
  const planEvaluation = (cases: boolean[]) => async () =>
    ({ rubric: 'plain', judgesPrompt: true, cases, calls: 5 }) as const;
  /** The calls of a stub, those of judges by the names of their units. */
  const namesOf = ({ calls }: StubActivities) =>
    calls.map(({ name, input }) => (name === 'judgeUnit' ? judgeCallName((input as RunJudgeCallInput).unit) : name));

  it('judges the prompt in parallel with the cases, and each case after its answer', async () => {
    const stub = stubActivities();
    const { run, runId, firstCase } = await evaluate(stub);
    expect(await run.result()).deep.equal({
      spent: { calls: 5, cached: 0, inputTokens: 50, completionTokens: 10, costUsd: 2.5 },
      failed: [],
    });
    const names = namesOf(stub);
    expect(names.toSorted()).deep.equal(
      ['planEvaluation', 'prompt', 'answerCase', 'answerCase', 'case 1', 'case 2', 'scoreEvaluation'].toSorted(),
    );
    for (const caseIndex of [0, 1]) {
      const answered = stub.calls.findIndex(
        ({ name, input }) => name === 'answerCase' && (input as AnswerCaseInput).caseIndex === caseIndex,
      );
      expect(answered).below(names.indexOf(`case ${caseIndex + 1}`));
    }
    const scored = { orgId: 'org', runId, attempt: 2, failed: [] };
    expect(stub.calls.at(-1)).deep.equal({ name: 'scoreEvaluation', input: scored });
    expect(await attributeOf(run, 'Stage')).equal('done');
    expect(await detailsOf(run)).match(/50 input tokens, 10 output tokens, 2\.5000 US dollars/);
    expect(await attributeOf(firstCase, 'JobKind')).equal('evaluate');
    expect(await attributeOf(firstCase, 'OrgId')).equal('org');
  });

  it('compares both prompts, and on each axis the two answers of each case in both orders', async () => {
    const stub = stubActivities({ planEvaluation: planEvaluation([true]) });
    const { run } = await evaluate(stub, 'compareVersions');
    await run.result();
    const names = namesOf(stub);
    expect(names).to.include.members(['prompt', 'baseline prompt', 'case 1/accuracy AB', 'case 1/accuracy BA']);
    expect(stub.timesOf('answerCase')).equal(2);
    expect(names.filter((name) => name.startsWith('case 1/'))).length(10);
  });

  it('continues when a judge call fails, and reports the failed calls at the end', async () => {
    const failed = [{ unit: 'case 1 answer', code: 'context_too_long' }];
    const stub = stubActivities({
      answerCase: async ({ caseIndex }) => (caseIndex === 0 ? { ...oneCall, failed } : oneCall),
      scoreEvaluation: async () => {
        throw appError('eval_incomplete', { detail: 'Something is missing.' });
      },
    });
    const { run, runId } = await evaluate(stub);
    expect(await failureOf(run)).property('type', 'eval_incomplete');
    expect(await detailsOf(run))
      .match(/^Failed: \*\*eval_incomplete/)
      .and.match(/input tokens.* 1 failed: case 1 answer \(context_too_long\)/);
    expect(namesOf(stub)).not.include('case 1');
    const of = { orgId: 'org', runId, attempt: 2 };
    const error = { code: 'eval_incomplete', message: 'Something is missing.' };
    expect(stub.calls.slice(-2)).deep.equal([
      { name: 'scoreEvaluation', input: { ...of, failed } },
      { name: 'recordEvaluationFailure', input: { ...of, error } },
    ]);
    expect(await attributeOf(run, 'ErrorCode')).equal('eval_incomplete');
  });

  it('retries a judge call after a transient fault', async () => {
    const judgeUnit = async () => {
      failFirstAttempt(appError('model_unavailable', { retryAfterSeconds: 0.01 }));
      return oneCall;
    };
    const stub = stubActivities({ planEvaluation: planEvaluation([]), judgeUnit });
    const { run } = await evaluate(stub);
    expect(await run.result()).deep.include({ failed: [] });
    expect(stub.timesOf('judgeUnit')).equal(2);
  });

  it('fails at once with version_not_found when the version no longer exists', async () => {
    const gone = async () => {
      throw appError('version_not_found');
    };
    const stub = stubActivities({ answerCase: gone, judgeUnit: gone });
    const { run } = await evaluate(stub);
    expect(await failureOf(run)).property('type', 'version_not_found');
    expect(stub.names).not.include('scoreEvaluation');
  });

  it('cancels the runs of its cases when it is cancelled, and waits for their end', async () => {
    const running = new Set<number>();
    const stub = stubActivities({
      answerCase: async ({ caseIndex }) => {
        running.add(caseIndex);
        return untilCancelled().finally(() => running.delete(caseIndex));
      },
    });
    const { run, runId, firstCase } = await evaluate(stub);
    await stub.untilCalled('answerCase', 2);
    expect(running.size).equal(2);
    expect(await run.query(stageQueryName)).property('stage', 'judge');
    await run.cancel();
    expect(await failureOf(run)).instanceOf(CancelledFailure);
    expect(running.size).equal(0);
    const recorded = { name: 'recordEvaluationCancellation', input: { orgId: 'org', runId, attempt: 2 } };
    expect(stub.calls.at(-1)).deep.equal(recorded);
    expect((await firstCase.describe()).status.name).equal('CANCELLED');
  });

  it('can be started again after its run was terminated, even while cases of that run are still open', async () => {
    const gate = Promise.withResolvers<typeof oneCall>();
    const stub = stubActivities({ answerCase: () => gate.promise });
    const first = await evaluate(stub);
    await stub.untilCalled('answerCase');
    await first.run.terminate();
    const second = await evaluate(stub, 'evaluateVersion', first.runId);
    gate.resolve(oneCall);
    expect(await second.run.result()).deep.include({ failed: [] });
  });
});
