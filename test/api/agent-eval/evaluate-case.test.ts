import { expect } from 'chai';
import { problemSchema } from '#src/http/response/problem.ts';
import { caseResultSchema } from '#src/modules/evaluations/evaluations.schema.ts';
import { anEvaluableVersion, persona } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import {
  namesJobOnTimeout,
  namesMissingVerdicts,
  rejectsOtherCallers,
  rejectsOverDailyLimit,
} from '#test/support/evaluation-refusals.ts';
import { itHoldsTheLimit, post } from '#test/support/exact-limit.ts';
import { judgeWell } from '#test/support/scripted-judge.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';

const path = '/agent-eval/evaluate-case';
const fee = { case: { input: 'What is the fee?', expected: 'One percent.' } };

describe('POST /agent-eval/evaluate-case', () => {
  let shared: ScriptedStack;
  let ada: Member;
  before(async () => {
    shared = await scriptedStack();
  });
  beforeEach(async () => {
    ada = await shared.signUp();
    shared.model.behave(judgeWell());
  });

  it('200: judges the answer to one case, and not the prompt', async () => {
    const result = caseResultSchema.parse(
      (await ada.post(path, { ...(await anEvaluableVersion(ada)), ...fee }, 200)).body,
    );
    expect(result).include({
      input: 'What is the fee?',
      generated_response: `An answer to What is the fee? by ${persona}`,
      has_reference: true,
      response_average: 3,
    });
    expect(result.response_scores).length(5);
    expect(shared.model.requests).length(2);
  });

  it('200: asks with the model, temperature and max_tokens of the version', async () => {
    const chat_model = shared.config.models.chatModel;
    const of = await anEvaluableVersion(ada, { chat_model, temperature: 0.4, max_tokens: 99 });
    await ada.post(path, { ...of, ...fee }, 200);
    expect(shared.model.requests[0]).include({ model: chat_model, temperature: 0.4, max_tokens: 99 });
  });

  it('401, 403 and 404: rejects anonymous callers, readers, and unknown drafts or versions', async () => {
    await rejectsOtherCallers(shared, ada, { path, body: { ...(await anEvaluableVersion(ada)), ...fee } });
  });

  it('409: rejects cases over the daily limit', async () => {
    await rejectsOverDailyLimit(shared, ada, { path, body: { ...(await anEvaluableVersion(ada)), ...fee } });
  });

  it('502: names the missing verdict, and a repeated request asks only for that', async () => {
    await namesMissingVerdicts(shared, ada, { path, body: { ...(await anEvaluableVersion(ada)), ...fee } });
  });

  it('504: names the job, which continues', async () => {
    await namesJobOnTimeout(shared, ada, { path, body: { ...(await anEvaluableVersion(ada)), ...fee } });
  });

  let asked = 0;
  itHoldsTheLimit('evaluation_case_limit_reached', async (member) => {
    const of = await anEvaluableVersion(member);
    return () => {
      asked += 1;
      return post(member, path, { ...of, case: { input: `Case ${asked}` } }, { prefer: 'wait=0' });
    };
  });

  it('422: rejects a missing case, a case without input, and an unknown model', async () => {
    const of = await anEvaluableVersion(ada);
    const errors = async (changes: object) =>
      problemSchema.parse((await ada.post(path, { ...of, ...changes }, 422)).body).errors?.[0]?.path;
    expect(await errors({})).equal('case');
    expect(await errors({ case: { input: '' } })).equal('case.input');
    expect(await errors({ ...fee, evaluator_model: 'nobody-9000' })).equal('evaluator_model');
  });
});
