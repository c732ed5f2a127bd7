import { expect } from 'chai';
import { problemSchema } from '#src/http/response/problem.ts';
import { evaluationResultSchema } from '#src/modules/evaluations/evaluations.schema.ts';
import { anEvaluableVersion, twoEvaluableVersions } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import {
  namesJobOnTimeout,
  namesMissingVerdicts,
  rejectsOtherCallers,
  rejectsOverDailyLimit,
} from '#test/support/evaluation-refusals.ts';
import { judgeWell } from '#test/support/scripted-judge.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';

const path = '/agent-eval/evaluate-prompt';

describe('POST /agent-eval/evaluate-prompt', () => {
  let shared: ScriptedStack;
  let ada: Member;
  before(async () => {
    shared = await scriptedStack();
  });
  beforeEach(async () => {
    ada = await shared.signUp();
    shared.model.behave(judgeWell());
  });

  it('200: judges only the prompt', async () => {
    const result = evaluationResultSchema.parse((await ada.post(path, await anEvaluableVersion(ada), 200)).body);
    expect(result).deep.include({ cases: [], response_average: 0, prompt_average: 3, overall_average: 3 });
  });

  it('200: reuses the verdict on Cache-Control: no-cache, which regenerates only answers', async () => {
    const of = await anEvaluableVersion(ada);
    for (let times = 0; times < 2; times += 1) await ada.post(path, of, 200, { 'cache-control': 'no-cache' });
    expect(Object((await ada.get('/jobs', 200)).body).items).length(1);
  });

  it('200: uses the requested rubric and judge', async () => {
    const [version] = await twoEvaluableVersions(ada);
    shared.model.offer([{ id: 'judge-2', kind: 'chat' }]);
    const body = { ...version, rubric: 'plain', evaluator_model: shared.config.models.chatModel };
    const result = evaluationResultSchema.parse((await ada.post(path, body, 200)).body);
    expect(result).include({ rubric: 'plain', evaluator_model: shared.config.models.chatModel });
    expect(result.prompt_scores[0]).not.property('severity');
  });

  it('401, 403 and 404: rejects anonymous callers, readers, and unknown drafts or versions', async () => {
    await rejectsOtherCallers(shared, ada, { path, body: await anEvaluableVersion(ada) });
  });

  it('409: rejects cases over the daily limit', async () => {
    await rejectsOverDailyLimit(shared, ada, { path, body: await anEvaluableVersion(ada) });
  });

  it('502: names the missing verdict, and a repeated request asks only for that', async () => {
    await namesMissingVerdicts(shared, ada, { path, body: await anEvaluableVersion(ada) });
  });

  it('504: names the job, which continues', async () => {
    await namesJobOnTimeout(shared, ada, { path, body: await anEvaluableVersion(ada) });
  });

  it('422: rejects unknown fields and an unknown model', async () => {
    const of = await anEvaluableVersion(ada);
    const errors = async (changes: object) =>
      problemSchema.parse((await ada.post(path, { ...of, ...changes }, 422)).body).errors?.[0]?.path;
    expect(await errors({ cases: [] })).equal('cases');
    expect(await errors({ evaluator_model: 'nobody-9000' })).equal('evaluator_model');
  });
});
