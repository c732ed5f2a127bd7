import { expect } from 'chai';
import type { Knex } from 'knex';
import { createEvaluationActivities, type EvaluationActivities } from '#activities/evaluation.ts';
import type { EvaluationStepsResult, RunJudgeCallInput } from '#src/contracts/evaluation.ts';
import { judgeCallsOfPrompt } from '#src/domain/judging/judgement.ts';
import { runActivity } from '#test/support/activity-environment.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { anEvaluableVersion, type Evaluable, startPath } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { judgeWell } from '#test/support/scripted-judge.ts';
import { type ScriptedModel, startScriptedModel } from '#test/support/scripted-model.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { storeEvaluation } from '#test/support/stored-evaluation.ts';
import { until } from '#test/support/until.ts';

describe('evaluation activities', () => {
  let own: Stack;
  let model: ScriptedModel;
  let db: Knex;
  let ada: Member;
  let of: Evaluable;
  let run: { orgId: string; runId: string };
  let steps: EvaluationActivities;

  before(async () => {
    model = await startScriptedModel();
    // Without workers, so that only the test runs activities.
    own = await startStack({ OPENAI_BASE_URL: model.baseUrl, EVAL_MODEL: 'judge' }, { workers: false });
    db = own.container.db;
    steps = createEvaluationActivities(own.container);
  });
  after(async () => {
    await own.close();
    await model.close();
  });
  beforeEach(async () => {
    model.behave(judgeWell());
    ada = await own.signUp();
    of = await anEvaluableVersion(ada, { golden_cases: [{ id: 'fee', prompt: 'What is the fee?' }] });
    await ada.post(startPath(of), { run_golden: true }, 200, { prefer: 'wait=0' });
    const { evalRunId } = await db('draftVersions').where({ id: of.version_id }).first('evalRunId');
    run = { orgId: ada.orgId, runId: evalRunId };
  });

  async function runStep<Input, Result>(step: (input: Input) => Promise<Result>, input: Input): Promise<Result> {
    return runActivity(step, input);
  }
  const twice = <Result>(step: () => Promise<Result>) => Promise.all([step(), step()]);
  const [unit] = judgeCallsOfPrompt('plain');
  if (unit === undefined) throw new Error('a prompt has no unit');
  const ofCase = { mode: 'plain', text: { kind: 'reply', caseIndex: 0 } } as const;
  const judge = (of: RunJudgeCallInput['unit'] = unit) => runStep(steps.judgeUnit, { ...run, unit: of });
  const answer = () => runStep(steps.answerCase, { ...run, caseIndex: 0, side: 'version' });
  const score = (failed: EvaluationStepsResult['failed'] = []) => runStep(steps.scoreEvaluation, { ...run, failed });
  const jobNow = () => db('jobs').where({ id: run.runId }).first();
  const versionNow = () => db('draftVersions').where({ id: of.version_id }).first();

  it('give the same result when each activity runs twice concurrently', async () => {
    expect(await versionNow()).include({ evalStatus: 'queued' });
    const plan = { rubric: 'plain', judgesPrompt: true, cases: [false], calls: 3 };
    expect(await twice(() => runStep(steps.planEvaluation, run))).deep.equal([plan, plan]);
    expect(await versionNow()).include({ evalStatus: 'running' });
    await twice(answer);
    await twice(() => judge());
    await twice(() => judge(ofCase));
    expect(await jobNow()).include({ status: 'running', progressDone: 3, progressTotal: 3, progressUnit: 'answers' });
    await score();
    const { evalScores } = await versionNow();
    await score();
    expect(await jobNow()).include({ status: 'succeeded' });
    expect(await versionNow()).deep.include({ evalStatus: 'completed' });
    expect((await versionNow()).evalScores.cases).deep.equal(evalScores.cases);
    expect(await db('judgements').where({ orgId: ada.orgId })).length(2);
    expect(await db('generatedAnswers').where({ orgId: ada.orgId })).length(1);
  });

  it('reuse a stored verdict without calling the model, and report the spending', async () => {
    const first = await judge();
    expect(first).deep.equal({
      spent: { calls: 1, cached: 0, inputTokens: 120, completionTokens: 7, costUsd: 0 },
      failed: [],
    });
    expect((await judge()).spent).include({ calls: 1, cached: 1, inputTokens: 0 });
    expect(model.requests).length(1);
  });

  it('fail a unit after five transient errors', async () => {
    model.behave(() => ({ kind: 'status', status: 503 }));
    for (let times = 1; times < 5; times += 1) expect(await appErrorCode(judge())).equal('model_unavailable');
    expect((await judge()).failed).deep.equal([{ unit: 'prompt', code: 'model_unavailable' }]);
    // The next attempt starts counting from zero.
    await runStep(steps.planEvaluation, run);
    expect(await appErrorCode(judge())).equal('model_unavailable');
  });

  it('fail a unit at once on a permanent error', async () => {
    model.behave(() => ({ kind: 'status', status: 401 }));
    expect((await answer()).failed).deep.equal([{ unit: 'case 1 answer', code: 'model_not_configured' }]);
    model.behave(() => ({ kind: 'answer', text: 'Five stars.' }));
    const { spent, failed } = await judge();
    expect(failed).deep.equal([{ unit: 'prompt', code: 'judge_response_invalid' }]);
    expect(spent).deep.equal({ calls: 0, cached: 0, inputTokens: 360, completionTokens: 21, costUsd: 0 });
    expect(model.requests).length(3);
  });

  it('fail with eval_incomplete and end the attempt when a verdict is missing', async () => {
    await judge();
    expect(await appErrorCode(score([{ unit: 'case 1 answer', code: 'context_too_long' }]))).equal('eval_incomplete');
    expect(await versionNow()).include({ evalStatus: 'failed', evalScores: null });
    const error = { code: 'eval_incomplete', message: 'x' };
    await twice(() => runStep(steps.recordEvaluationFailure, { ...run, error }));
    expect(await jobNow()).include({ status: 'failed', errorCode: 'eval_incomplete' });
    expect(await versionNow()).include({ evalStatus: 'failed' });
  });

  it('reject a run that was started with another rubric version', async () => {
    await judge();
    await db.raw(`update evaluation_runs set specification = specification || '{"rubricVersion": "r0"}' where id = ?`, [
      run.runId,
    ]);
    for (const step of [() => runStep(steps.planEvaluation, run), () => judge(ofCase), answer, score]) {
      expect(await appErrorCode(step())).equal('eval_incomplete');
    }
    expect(model.requests).length(1);
  });

  it('record a cancellation', async () => {
    await runStep(steps.planEvaluation, run);
    await twice(() => runStep(steps.recordEvaluationCancellation, run));
    expect(await jobNow()).include({ status: 'cancelled' });
    expect(await versionNow()).include({ evalStatus: 'canceled' });
  });

  it('store no verdict for a draft that was deleted during the call', async () => {
    const judgeReply = Promise.withResolvers<void>();
    model.behave(judgeWell(undefined, judgeReply.promise));
    const judging = appErrorCode(judge());
    await ada.delete(`/agent-drafts/${of.draft_id}`, 204);
    judgeReply.resolve();
    expect(await judging).equal('version_not_found');
    expect(await appErrorCode(score())).equal('version_not_found');
    expect(await db('judgements').where({ orgId: ada.orgId })).deep.equal([]);
  });

  it('judge again when the stored verdict is deleted concurrently, and fail only the unit whose answer is gone', async () => {
    await judge();
    const deletion = await db.transaction();
    const judgements = () => deletion('judgements').where({ orgId: ada.orgId });
    await judgements().forUpdate();
    const judging = judge();
    await until('the judge is asked once more', async () => model.requests.length === 2);
    await judgements().delete();
    await deletion.commit();
    expect((await judging).spent).include({ cached: 0 });
    expect(await db('judgements').where({ orgId: ada.orgId })).length(1);
    await answer();
    await db('generatedAnswers').where({ orgId: ada.orgId }).delete();
    expect((await judge(ofCase)).failed).deep.equal([{ unit: 'case 1', code: 'eval_incomplete' }]);
  });

  it('are verified by I7: it reports results that do not follow from judgements, and judgements without a run', async () => {
    await answer();
    await judge();
    await judge(ofCase);
    await score();
    const grace = { orphanSeconds: 0, reconcileSeconds: 0, dispatchSeconds: 600, erasureSeconds: 0 };
    const violations = async () =>
      (await own.container.invariants.check(grace)).filter(({ invariant }) => invariant === 'I7');
    expect(await violations()).deep.equal([]);
    await db.raw(`update evaluation_runs set results = jsonb_set(results, '{promptAverage}', '5') where id = ?`, [
      run.runId,
    ]);
    expect((await violations()).map(({ detail }) => detail)).deep.equal([
      `The judgements of evaluation run ${run.runId} do not give its stored results.`,
    ]);
    // Results of an older rubric cannot be computed again.
    await db.raw(`update evaluation_runs set specification = specification || '{"rubricVersion": "r0"}' where id = ?`, [
      run.runId,
    ]);
    expect(await violations()).deep.equal([]);
    const other = await own.signUp();
    const stray = await storeEvaluation(db, other);
    await db.raw('alter table evaluation_units disable trigger evaluation_units_forgotten');
    await db('evaluationRuns').where({ id: stray }).delete();
    await db.raw('alter table evaluation_units enable trigger evaluation_units_forgotten');
    expect(await violations()).length(1);
    await db('judgements').where({ orgId: other.orgId }).delete();
    expect(await violations()).deep.equal([]);
  });

  it('delete judgements shared by two runs when both runs are deleted concurrently', async () => {
    const member = await own.signUp();
    const runId = await storeEvaluation(db, member);
    const twin = `${runId}-twin`;
    await db.raw(
      `insert into evaluation_runs (id, org_id, specification, estimated_calls, acl, created_by)
       select ?, org_id, specification, estimated_calls, acl, created_by from evaluation_runs where id = ?`,
      [twin, runId],
    );
    await db.raw(
      `insert into evaluation_units (org_id, run_id, unit, cache_key)
       select org_id, ?, unit, cache_key from evaluation_units where run_id = ?`,
      [twin, runId],
    );
    let second: Promise<number> | undefined;
    await db.transaction(async (trx) => {
      await trx('evaluationRuns').where({ id: runId }).delete();
      second = db('evaluationRuns').where({ id: twin }).delete().then(Number);
      await until('the second waits, or is done', async () => {
        const { rows } = await db.raw(
          `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
        );
        return rows.length > 0 || (await db('evaluationRuns').where({ id: twin })).length === 0;
      });
    });
    expect(await second).equal(1);
    expect(await db('judgements').where({ orgId: member.orgId })).deep.equal([]);
  });

  it('delete evaluations without a draft after 30 days, except those with an open job', async () => {
    const id = await storeEvaluation(db, await own.signUp());
    await own.container.evaluations.deleteOldAdhocRuns();
    expect(await db('evaluationRuns').where({ id })).length(1);
    // The job of this one is still open.
    await ada.post('/agent-eval/evaluate-prompt-adhoc', { agent_prompt: 'Help.' }, 504, { prefer: 'wait=0' });
    await db.raw(`update evaluation_runs set created_at = now() - interval '31 days'`);
    await own.container.evaluations.deleteOldAdhocRuns();
    expect(await db('evaluationRuns').where({ id })).deep.equal([]);
    expect(await db('evaluationRuns').where({ id: run.runId })).length(1);
    expect(await db('evaluationRuns').where({ orgId: ada.orgId, draftId: null })).length(1);
  });

  // Must be the last test: this process pauses calls to the model from here on.
  it('do not count a requested pause as a failure, but fail the unit after an hour of pauses', async () => {
    model.behave(() => ({ kind: 'status', status: 503, retryAfterSeconds: 3_600 }));
    for (let times = 0; times < 6; times += 1) expect(await appErrorCode(judge())).equal('model_unavailable');
    await db('evaluationUnits')
      .where({ runId: run.runId })
      .update({ pausedSince: db.raw(`now() - interval '61 minutes'`) });
    expect((await judge()).failed).deep.equal([{ unit: 'prompt', code: 'model_unavailable' }]);
    await runStep(steps.planEvaluation, run);
    expect(await appErrorCode(judge())).equal('model_unavailable');
  });
});
