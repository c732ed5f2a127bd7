import { expect } from 'chai';
import { problemSchema } from '#src/http/response/problem.ts';
import { anEvaluableVersion, evaluate, persona, twoEvaluableVersions } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import {
  namesJobOnTimeout,
  namesMissingVerdicts,
  rejectsOtherCallers,
  rejectsOverDailyLimit,
} from '#test/support/evaluation-refusals.ts';
import { isForJudge, judgeWell } from '#test/support/scripted-judge.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';
import { startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';

const path = '/agent-eval/evaluate';

describe('POST /agent-eval/evaluate', () => {
  let shared: ScriptedStack;
  let ada: Member;
  before(async () => {
    shared = await scriptedStack();
  });
  // Verdicts are cached per organization, so each test needs its own.
  beforeEach(async () => {
    ada = await shared.signUp();
    shared.model.behave(judgeWell());
  });

  it('200: judges the prompt of a first version by the plain rubric in one call', async () => {
    const of = await anEvaluableVersion(ada);
    const result = await evaluate(ada, of);
    const chatModel = shared.config.models.chatModel;
    expect(result).include({
      agent_id: of.draft_id,
      rubric: 'plain',
      generation_model: chatModel,
      evaluator_model: chatModel,
      prompt_average: 3,
      response_average: 0,
      overall_average: 3,
    });
    expect(result.prompt_scores).length(6);
    expect(result.cases).deep.equal([]);
    expect(shared.model.requests).length(1);
  });

  it('200: has every case answered and judged, for accuracy where there is a reference', async () => {
    shared.model.behave(
      judgeWell(({ messages }) => ({ score: JSON.stringify(messages).includes('The reference') ? 5 : 2 })),
    );
    const cases = [
      { input: 'What is a fee?', expected: 'One percent.' },
      { input: 'How long?', expected: ' ' },
      { input: 'When?' },
    ];
    const result = await evaluate(ada, { ...(await anEvaluableVersion(ada)), cases });
    expect(
      result.cases.map(({ has_reference, response_scores }) => [has_reference, response_scores.length]),
    ).deep.equal([
      [true, 5],
      [false, 4],
      [false, 4],
    ]);
    expect(result.cases[1]).include({ input: 'How long?', generated_response: `An answer to How long? by ${persona}` });
    expect(result).include({ prompt_average: 2, response_average: 3, overall_average: 2.5 });
    // One call for the prompt, and two per case: the answer and its verdict.
    expect(shared.model.requests).length(7);
  });

  it('200: returns stored results without calling a model again', async () => {
    const body = { ...(await anEvaluableVersion(ada)), cases: [{ input: 'What is a fee?' }] };
    const first = await evaluate(ada, body);
    shared.model.behave(judgeWell(() => ({ score: 1 })));
    expect(await evaluate(ada, body)).deep.equal(first);
    // With another case, only its answer and verdict are missing.
    const more = await evaluate(ada, { ...body, cases: [...body.cases, { input: 'When?' }] });
    expect(more.cases[0]).deep.equal(first.cases[0]);
    expect(shared.model.requests).length(2);
  });

  it('200: generates new answers on Cache-Control: no-cache', async () => {
    const body = { ...(await anEvaluableVersion(ada)), cases: [{ input: 'What is a fee?' }] };
    await evaluate(ada, body);
    await ada.post(path, body, 200, { 'cache-control': 'no-cache' });
    expect(shared.model.requests.filter((request) => !isForJudge(request))).length(2);
  });

  it('200: judges a version with a parent by the anchored rubric, three times an axis', async () => {
    const result = await evaluate(ada, (await twoEvaluableVersions(ada))[0]);
    expect(result.rubric).equal('anchored');
    expect(result.prompt_scores[0]).include({ severity: 'structural', sd: 0, score: 3 });
    expect(shared.model.requests).length(18);
    expect(new Set(shared.model.requests.map(({ temperature }) => temperature))).deep.equal(new Set([0.3]));
  });

  it('200: returns the result to the next request after the client disconnected', async () => {
    const judgeReply = Promise.withResolvers<void>();
    shared.model.behave(judgeWell(undefined, judgeReply.promise));
    const body = await anEvaluableVersion(ada);
    const client = new AbortController();
    const asked = post(ada, body, client.signal);
    await until('the judge is asked', async () => shared.model.requests.length > 0);
    client.abort();
    await asked.catch(() => undefined);
    judgeReply.resolve();
    await evaluate(ada, body);
    expect(shared.model.requests).length(1);
  });

  it('401, 403 and 404: rejects anonymous callers, readers, and unknown drafts or versions', async () => {
    await rejectsOtherCallers(shared, ada, { path, body: await anEvaluableVersion(ada) });
  });

  it('409: rejects cases over the daily limit', async () => {
    await rejectsOverDailyLimit(shared, ada, { path, body: await anEvaluableVersion(ada) });
  });

  it('422: without a version, for cases without input, over 20 cases, an unknown rubric or model', async () => {
    const of = await anEvaluableVersion(ada);
    const refuses = async (field: string, changes: object) => {
      const { body } = await ada.post(path, { ...of, ...changes }, 422);
      expect(problemSchema.parse(body).errors?.[0]?.path).equal(field);
    };
    await refuses('version_id', { version_id: 'v1' });
    await refuses('cases.0.input', { cases: [{ input: '' }] });
    await refuses('cases', { cases: Array.from({ length: 21 }, () => ({ input: 'x' })) });
    await refuses('rubric', { rubric: 'strict' });
    await refuses('evaluator_model', { evaluator_model: 'nobody-9000' });
  });

  it('200: accepts references of 100,000 characters', async () => {
    const cases = [{ input: 'What is a fee?', expected: 'One percent. '.repeat(8_000) }];
    expect((await evaluate(ada, { ...(await anEvaluableVersion(ada)), cases })).cases[0]?.response_scores).length(5);
  });

  it('502: names the missing verdict, and a repeated request asks only for that', async () => {
    const body = { ...(await anEvaluableVersion(ada)), cases: [{ input: 'What is a fee?' }] };
    await namesMissingVerdicts(shared, ada, { path, body });
  });

  it('502: names the error code of the model that could not answer a case', async () => {
    shared.model.behave((request) => (isForJudge(request) ? judgeWell()(request) : { kind: 'status', status: 400 }));
    const reply = await ada.post(path, { ...(await anEvaluableVersion(ada)), cases: [{ input: 'x' }] }, 502);
    expect(problemSchema.parse(reply.body).detail).include('model_rejected');
  });

  it('504: says that the run is still queued while Temporal is unreachable', async () => {
    const away = await startStack(
      { TEMPORAL_ADDRESS: '127.0.0.1:1', TEMPORAL_CALL_TIMEOUT_MS: '2000', EVAL_MODEL: 'judge' },
      { workers: false },
    );
    try {
      const member = await away.signUp();
      const reply = await member.post(path, await anEvaluableVersion(member), 504, { prefer: 'wait=1' });
      expect(problemSchema.parse(reply.body).detail).match(/^The evaluation evaluate-[0-9a-f]+ is still queued/);
    } finally {
      await away.close();
    }
  });

  it('504: names the job, which continues', async () => {
    await namesJobOnTimeout(shared, ada, { path, body: await anEvaluableVersion(ada) });
  });
});

async function post(member: Member, body: object, signal: AbortSignal): Promise<unknown> {
  const headers = { 'content-type': 'application/json' };
  return member.raw(path, { method: 'POST', headers, body: JSON.stringify(body), signal });
}
