import { expect } from 'chai';
import type { Member } from '#test/support/client.ts';
import { signUpColleague } from '#test/support/colleague.ts';
import { evaluate, newEvaluable, newPair, persona } from '#test/support/evaluations.ts';
import { isForJudge, judgeWell } from '#test/support/scripted-judge.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';

const path = '/agent-eval/evaluate';

describe('POST /agent-eval/evaluate', () => {
  let shared: ScriptedStack;
  let ada: Member;
  before(async () => {
    shared = await scriptedStack();
  });
  // What was judged in an organization is not judged twice there.
  beforeEach(async () => {
    ada = await shared.signUp();
    shared.model.behave(judgeWell());
  });

  it('200: judges the prompt of a first version plainly, in one call', async () => {
    const of = await newEvaluable(ada);
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
    const result = await evaluate(ada, { ...(await newEvaluable(ada)), cases });
    expect(
      result.cases.map(({ has_reference, response_scores }) => [has_reference, response_scores.length]),
    ).deep.equal([
      [true, 5],
      [false, 4],
      [false, 4],
    ]);
    expect(result.cases[1]).include({ input: 'How long?', generated_response: `An answer to How long? by ${persona}` });
    expect(result).include({ prompt_average: 2, response_average: 3, overall_average: 2.5 });
    // One for the prompt, and for each case an answer and its judgement.
    expect(shared.model.requests).length(7);
  });

  it('200: asks no model again for what it was asked before, and gives the same', async () => {
    const body = { ...(await newEvaluable(ada)), cases: [{ input: 'What is a fee?' }] };
    const first = await evaluate(ada, body);
    shared.model.behave(judgeWell(() => ({ score: 1 })));
    expect(await evaluate(ada, body)).deep.equal(first);
    // With another case, the prompt and the first answer are known.
    const more = await evaluate(ada, { ...body, cases: [...body.cases, { input: 'When?' }] });
    expect(more.cases[0]).deep.equal(first.cases[0]);
    expect(shared.model.requests).length(2);
  });

  it('200: draws new answers for Cache-Control: no-cache', async () => {
    const body = { ...(await newEvaluable(ada)), cases: [{ input: 'What is a fee?' }] };
    await evaluate(ada, body);
    await ada.post(path, body, 200, { 'cache-control': 'no-cache' });
    expect(shared.model.requests.filter((request) => !isForJudge(request))).length(2);
  });

  it('200: judges a version with a parent by the anchored rubric, three times an axis', async () => {
    const result = await evaluate(ada, (await newPair(ada))[0]);
    expect(result.rubric).equal('anchored');
    expect(result.prompt_scores[0]).include({ severity: 'structural', sd: 0, score: 3 });
    expect(shared.model.requests).length(18);
    expect(new Set(shared.model.requests.map(({ temperature }) => temperature))).deep.equal(new Set([0.3]));
  });
});
