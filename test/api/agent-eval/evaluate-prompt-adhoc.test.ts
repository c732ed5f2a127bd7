import { expect } from 'chai';
import { problemSchema } from '#src/http/response/problem.ts';
import { evaluationResultSchema } from '#src/modules/evaluations/evaluations.schema.ts';
import { aColleague } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { namesJobOnTimeout, namesMissingVerdicts, rejectsOverDailyLimit } from '#test/support/evaluation-refusals.ts';
import { judgeWell } from '#test/support/scripted-judge.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';

const path = '/agent-eval/evaluate-prompt-adhoc';
const body = { agent_prompt: 'You help with loans.', agent_name: 'Lena', tags: ['loans'] };

describe('POST /agent-eval/evaluate-prompt-adhoc', () => {
  let shared: ScriptedStack;
  let ada: Member;
  before(async () => {
    shared = await scriptedStack();
  });
  beforeEach(async () => {
    ada = await shared.signUp();
    shared.model.behave(judgeWell());
  });

  it('200: judges a prompt that belongs to no draft by the plain rubric', async () => {
    const result = evaluationResultSchema.parse((await ada.post(path, body, 200)).body);
    expect(result).deep.include({ agent_id: null, rubric: 'plain', cases: [], prompt_average: 3 });
  });

  it('200: needs only the prompt, and accepts another rubric', async () => {
    const { agent_prompt } = body;
    const result = evaluationResultSchema.parse((await ada.post(path, { agent_prompt, rubric: 'anchored' }, 200)).body);
    expect(result.prompt_scores).length(6);
    expect(result.prompt_scores[0]).include({ severity: 'structural' });
  });

  it('200: shows the job only to its owner, and shares the verdict within the organization', async () => {
    await ada.post(path, body, 200);
    const grace = await aColleague(shared, ada);
    expect((await grace.get('/jobs', 200)).body).deep.include({ items: [] });
    await grace.post(path, body, 200);
    expect(shared.model.requests).length(1);
  });

  it('401: rejects anonymous callers', async () => {
    await shared.anonymous.post(path, body, 401);
  });

  it('409: rejects cases over the daily limit', async () => {
    await rejectsOverDailyLimit(shared, ada, { path, body });
  });

  it('422: rejects a missing prompt and an unknown model', async () => {
    const errors = async (changes: object) =>
      problemSchema.parse((await ada.post(path, { ...body, ...changes }, 422)).body).errors?.[0]?.path;
    expect(await errors({ agent_prompt: '' })).equal('agent_prompt');
    expect(await errors({ tags: 'loans' })).equal('tags');
    expect(await errors({ evaluator_model: 'nobody-9000' })).equal('evaluator_model');
  });

  it('502: names the missing verdict, and a repeated request asks only for that', async () => {
    await namesMissingVerdicts(shared, ada, { path, body });
  });

  it('504: names the job, which continues', async () => {
    await namesJobOnTimeout(shared, ada, { path, body });
  });
});
