import { expect } from 'chai';
import { createEvaluationActivities, type EvaluationActivities } from '#activities/evaluation.ts';
import type { EvaluationStepsResult, RunJudgeCallInput } from '#src/contracts/evaluation.ts';
import { judgeCallsOfPrompt } from '#src/domain/judging/judgement.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { anEvaluableVersion, type Evaluable, startPath } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { runActivity } from '#test/support/ingestion-steps.ts';
import { judgeWell } from '#test/support/scripted-judge.ts';
import { useIdleStack } from '#test/support/stack.ts';
import { storeEvaluation } from '#test/support/stored-rows.ts';

describe('evaluation activities', () => {
  const own = useIdleStack({ EVAL_MODEL: 'judge' }, () => undefined);
  let ada: Member;
  let of: Evaluable;
  let run: { orgId: string; runId: string };
  let steps: EvaluationActivities;
  beforeEach(async () => {
    steps = createEvaluationActivities(own.container);
    own.model.behave(judgeWell());
    ada = await own.signUp();
    of = await anEvaluableVersion(ada, { golden_cases: [{ id: 'fee', prompt: 'What is the fee?' }] });
    await ada.post(startPath(of), { run_golden: true }, 200, { prefer: 'wait=0' });
    run = { orgId: ada.orgId, runId: (await versionNow()).evalRunId };
  });

  const [unit] = judgeCallsOfPrompt('plain');
  if (unit === undefined) throw new Error('a prompt has no unit');
  const ofCase = { mode: 'plain', text: { kind: 'reply', caseIndex: 0 } } as const;
  const plan = () => runActivity(steps.planEvaluation, run);
  const judge = (judged: RunJudgeCallInput['unit'] = unit) => runActivity(steps.judgeUnit, { ...run, unit: judged });
  const answer = () => runActivity(steps.answerCase, { ...run, caseIndex: 0, side: 'version' });
  const score = (failed: EvaluationStepsResult['failed'] = []) =>
    runActivity(steps.scoreEvaluation, { ...run, failed });
  const twice = <Result>(step: () => Promise<Result>) => Promise.all([step(), step()]);
  const jobNow = () => own.db('jobs').where({ id: run.runId }).first();
  const versionNow = () => own.db('draftVersions').where({ id: of.version_id }).first();
  const rowsOf = (table: string, { orgId }: { orgId: string } = ada) => own.db(table).where({ orgId });
  const changeRun = (change: string) => own.db.raw(`update evaluation_runs set ${change} where id = ?`, [run.runId]);
  const anotherRubric = `specification = specification || '{"rubricVersion": "r0"}'`;

  it('give the same result when each activity runs twice concurrently', async () => {
    expect(await versionNow()).include({ evalStatus: 'queued' });
    const planned = { rubric: 'plain', judgesPrompt: true, cases: [false], calls: 3 };
    expect(await twice(plan)).deep.equal([planned, planned]);
    expect(await versionNow()).include({ evalStatus: 'running' });
    for (const step of [answer, () => judge(), () => judge(ofCase)]) await twice<EvaluationStepsResult>(step);
    expect(await jobNow()).include({ status: 'running', progressDone: 3, progressTotal: 3, progressUnit: 'answers' });
    await score();
    const { evalScores } = await versionNow();
    await score();
    expect(await jobNow()).include({ status: 'succeeded' });
    expect(await versionNow()).include({ evalStatus: 'completed' });
    expect((await versionNow()).evalScores.cases).deep.equal(evalScores.cases);
    expect(await rowsOf('judgements')).length(2);
    expect(await rowsOf('generatedAnswers')).length(1);
  });

  it('give up a judge call after five transient errors, and count anew in the next attempt of the run', async () => {
    own.model.behave(() => ({ kind: 'status', status: 503 }));
    for (let times = 1; times < 5; times += 1) expect(await appErrorCode(judge())).equal('model_unavailable');
    expect((await judge()).failed).deep.equal([{ unit: 'prompt', code: 'model_unavailable' }]);
    await plan();
    expect(await appErrorCode(judge())).equal('model_unavailable');
  });

  it('give up a judge call at once on a permanent error, or if the answer to be judged is gone', async () => {
    own.model.behave(() => ({ kind: 'status', status: 401 }));
    expect((await answer()).failed).deep.equal([{ unit: 'case 1 answer', code: 'model_not_configured' }]);
    own.model.behave(() => ({ kind: 'answer', text: 'Five stars.' }));
    expect(await judge()).deep.equal({
      spent: { calls: 0, cached: 0, inputTokens: 360, completionTokens: 21, costUsd: 0 },
      failed: [{ unit: 'prompt', code: 'judge_response_invalid' }],
    });
    expect(own.model.requests).length(3);
    expect((await judge(ofCase)).failed).deep.equal([{ unit: 'case 1', code: 'eval_incomplete' }]);
  });

  it('with documents, fail for a reply of nothing but invalid citations, and give up for a user who was disabled', async () => {
    await changeRun(`specification = specification || '{"documents": {"userId": "${ada.userId}", "state": "0/"}}'`);
    own.model.behave(() => ({ kind: 'answer', text: '[1][2]' }));
    expect(await appErrorCode(answer())).equal('model_response_invalid');
    await own.db('users').where({ id: ada.userId }).update({ disabledAt: own.db.fn.now() });
    expect((await answer()).failed).deep.equal([{ unit: 'case 1 answer', code: 'forbidden' }]);
    expect(own.model.requests).length(1);
  });

  it('fail with eval_incomplete and end the attempt when a verdict is missing', async () => {
    await judge();
    expect(await appErrorCode(score([{ unit: 'case 1 answer', code: 'context_too_long' }]))).equal('eval_incomplete');
    expect(await versionNow()).include({ evalStatus: 'failed', evalScores: null });
    const error = { code: 'eval_incomplete', message: 'x' };
    await twice(() => runActivity(steps.recordEvaluationFailure, { ...run, error }));
    expect(await jobNow()).include({ status: 'failed', errorCode: 'eval_incomplete' });
    expect(await versionNow()).include({ evalStatus: 'failed' });
  });

  it('reject a run that was started with another rubric version', async () => {
    await changeRun(anotherRubric);
    for (const step of [plan, () => judge(ofCase), answer, score]) {
      expect(await appErrorCode(step())).equal('eval_incomplete');
    }
    expect(own.model.requests).length(0);
  });

  it('close the job of a cancelled run as cancelled, and record this as the eval_status of the version', async () => {
    await plan();
    await twice(() => runActivity(steps.recordEvaluationCancellation, run));
    expect(await jobNow()).include({ status: 'cancelled' });
    expect(await versionNow()).include({ evalStatus: 'canceled' });
  });

  it('store no verdict for a draft that was deleted during the judge call', async () => {
    const judgeReply = Promise.withResolvers<void>();
    own.model.behave(judgeWell(undefined, judgeReply.promise));
    const judging = appErrorCode(judge());
    await ada.delete(`/agent-drafts/${of.draft_id}`, 204);
    judgeReply.resolve();
    expect(await judging).equal('version_not_found');
    expect(await appErrorCode(score())).equal('version_not_found');
    expect(await rowsOf('judgements')).deep.equal([]);
  });

  it('store results that follow from the judgements; the check of I7 reports results that do not, and stray judgements', async () => {
    await answer();
    for (const judged of [unit, ofCase]) await judge(judged);
    await score();
    const violations = async () => {
      const all = await own.container.invariants.check({ orphanSeconds: 0 });
      return all.filter(({ invariant }) => invariant === 'I7').map(({ detail }) => detail);
    };
    expect(await violations()).deep.equal([]);
    await changeRun(`results = jsonb_set(results, '{promptAverage}', '5')`);
    const wrong = `The judgements of evaluation run ${run.runId} do not give its stored results.`;
    expect(await violations()).deep.equal([wrong]);
    // Results of an older rubric cannot be computed again.
    await changeRun(anotherRubric);
    expect(await violations()).deep.equal([]);
    const usage = { inputTokens: 1, cachedInputTokens: 0, completionTokens: 1 };
    const stray = { orgId: ada.orgId, cacheKey: Buffer.from('stray'), model: 'judge', verdict: '{}', ...usage };
    await own.db('judgements').insert(stray);
    expect(await violations()).length(1);
  });

  it('delete evaluations without a draft after 30 days, except those with an open job', async () => {
    const id = await storeEvaluation(own.db, await own.signUp());
    const { deleteOldAdhocRuns } = own.container.evaluations;
    await deleteOldAdhocRuns();
    expect(await own.db('evaluationRuns').where({ id })).length(1);
    // The job of this one is still open.
    await ada.post('/agent-eval/evaluate-prompt-adhoc', { agent_prompt: 'Help.' }, 504, { prefer: 'wait=0' });
    await own.db.raw(`update evaluation_runs set created_at = now() - interval '31 days'`);
    await deleteOldAdhocRuns();
    expect(await own.db('evaluationRuns').where({ id })).deep.equal([]);
    expect(await rowsOf('evaluationRuns').where({ id: run.runId })).length(1);
    expect(await rowsOf('evaluationRuns').where({ draftId: null })).length(1);
  });

  // Must be the last test: this process pauses calls to the model from here on.
  it('do not count a pause that the model requests as a failure, but give up a judge call after an hour of pauses', async () => {
    own.model.behave(() => ({ kind: 'status', status: 503, retryAfterSeconds: 3_600 }));
    for (let times = 0; times < 6; times += 1) expect(await appErrorCode(judge())).equal('model_unavailable');
    const pausedSince = own.db.raw(`now() - interval '61 minutes'`);
    await own.db('evaluationUnits').where({ runId: run.runId }).update({ pausedSince });
    expect((await judge()).failed).deep.equal([{ unit: 'prompt', code: 'model_unavailable' }]);
    await plan();
    expect(await appErrorCode(judge())).equal('model_unavailable');
  });
});
