import { expect } from 'chai';
import { problemSchema } from '#src/http/response/problem.ts';
import {
  caseResultSchema,
  comparisonResultSchema,
  evaluationResultSchema,
} from '#src/modules/evaluations/evaluations.schema.ts';
import {
  aColleague,
  anEvaluableVersion,
  type EvaluationDto,
  evaluate,
  persona,
  twoEvaluableVersions,
} from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { itHoldsTheLimit, post } from '#test/support/concurrent-requests.ts';
import { isForJudge, judgeWell } from '#test/support/scripted-judge.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';
import { untilJob } from '#test/support/until-job.ts';

const unknownId = '00000000-0000-4000-8000-000000000000';
const feeCase = { input: 'What is the fee?', expected: 'One percent.' };
const adhoc = { agent_prompt: 'You help with loans.', agent_name: 'Lena', tags: ['loans'] };

/** Every operation that evaluates, and a body for a user without results. */
const operations: Record<string, (member: Member) => Promise<object>> = {
  '/agent-eval/evaluate': async (member) => ({ ...(await anEvaluableVersion(member)), cases: [feeCase] }),
  '/agent-eval/evaluate-prompt': anEvaluableVersion,
  '/agent-eval/evaluate-prompt-adhoc': async () => adhoc,
  '/agent-eval/evaluate-case': async (member) => ({ ...(await anEvaluableVersion(member)), case: feeCase }),
  '/agent-eval/compare': async (member) => ({ ...(await twoEvaluableVersions(member))[0], cases: [feeCase] }),
};

describe('agent evaluations', () => {
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

  const evaluatePrompt = async (path: string, body: object, member = ada): Promise<EvaluationDto> =>
    evaluationResultSchema.parse((await member.post(`/agent-eval/${path}`, body, 200)).body);

  for (const [path, newBody] of Object.entries(operations)) {
    describe(`by POST ${path}`, () => {
      it('answer 502 and name a missing verdict, and ask the model only for that verdict when repeated', async () => {
        const body = await newBody(ada);
        shared.model.behave((request) =>
          isForJudge(request) ? { kind: 'answer', text: '{"winner":"version"}' } : judgeWell()(request),
        );
        const problem = problemSchema.parse((await ada.post(path, body, 502)).body);
        expect(problem.code).equal('eval_incomplete');
        expect(problem.detail).include('judge_response_invalid');
        shared.model.behave(judgeWell());
        await ada.post(path, body, 200);
        expect(shared.model.requests.filter((request) => !isForJudge(request))).deep.equal([]);
      });

      it('answer 504 and name the job, which continues, when the wait ends first', async () => {
        const body = await newBody(ada);
        const { promise: released, resolve: release } = Promise.withResolvers<void>();
        shared.model.behave(judgeWell(undefined, released));
        const reply = await ada.post(path, body, 504, { prefer: 'wait=0' }).finally(release);
        const { code, detail } = problemSchema.parse(reply.body);
        expect(code).equal('eval_timeout');
        const [jobId = ''] = /(?:evaluate|compare)-[0-9a-f]+/.exec(detail) ?? [];
        await untilJob(ada, jobId, 'succeeded');
        await ada.post(path, body, 200, { prefer: 'wait=0' });
      });

      it('answer 409 over the daily limit, 404 for an unknown version, and 422 for an unknown judge', async () => {
        const body = await newBody(ada);
        const codeOf = async (changes: object, status: number) =>
          problemSchema.parse((await ada.post(path, { ...body, ...changes }, status)).body).code;
        expect(await codeOf({ evaluator_model: 'nobody-9000' }, 422)).equal('unknown_model');
        if ('version_id' in body) expect(await codeOf({ version_id: unknownId }, 404)).equal('version_not_found');
        const { db } = shared.container;
        const day = db.raw(`(now() at time zone 'utc')::date`);
        await db('evaluationDays').insert({ orgId: ada.orgId, day, cases: 500 });
        expect(await codeOf({}, 409)).equal('evaluation_case_limit_reached');
        expect(shared.model.requests).deep.equal([]);
      });
    });
  }

  let asked = 0;
  itHoldsTheLimit('evaluation_case_limit_reached', async (member) => {
    const of = await anEvaluableVersion(member);
    return () => {
      asked += 1;
      const body = { ...of, case: { input: `Case ${asked}` } };
      return post(member, '/agent-eval/evaluate-case', body, { prefer: 'wait=0' });
    };
  });

  it('answer and judge every case, and score its accuracy if it has a reference answer of any length', async () => {
    shared.model.behave(
      judgeWell(({ messages }) => ({ score: JSON.stringify(messages).includes('The reference') ? 5 : 2 })),
    );
    const cases = [
      { input: 'What is a fee?', expected: 'One percent. '.repeat(8_000) },
      { input: 'How long?', expected: ' ' },
      { input: 'When?' },
    ];
    const result = await evaluate(ada, { ...(await anEvaluableVersion(ada)), cases });
    const accuracy = result.cases.map(({ has_reference, response_scores }) => [has_reference, response_scores.length]);
    expect(accuracy).deep.equal([
      [true, 5],
      [false, 4],
      [false, 4],
    ]);
    const generated_response = `An answer to How long? by ${persona}`;
    expect(result.cases[1]).include({ input: 'How long?', generated_response });
    expect(result).include({ prompt_average: 2, response_average: 3, overall_average: 2.5 });
    // One call for the prompt, and two per case: the answer and its verdict.
    expect(shared.model.requests).length(7);
  });

  it('are cached: the model is asked only for missing results, or for new answers with no-cache', async () => {
    const body = { ...(await anEvaluableVersion(ada)), cases: [{ input: 'What is a fee?' }] };
    const first = await evaluate(ada, body);
    shared.model.behave(judgeWell(() => ({ score: 1 })));
    expect(await evaluate(ada, body)).deep.equal(first);
    const more = await evaluate(ada, { ...body, cases: [...body.cases, { input: 'When?' }] });
    expect(more.cases[0]).deep.equal(first.cases[0]);
    expect(shared.model.requests).length(2);
    await ada.post('/agent-eval/evaluate', body, 200, { 'cache-control': 'no-cache' });
    expect(shared.model.requests.filter((request) => !isForJudge(request))).length(2);
  });

  it('of a prompt without a draft show their job to its owner only, and give colleagues the same verdict', async () => {
    const result = await evaluatePrompt('evaluate-prompt-adhoc', adhoc);
    expect(result).deep.include({ agent_id: null, rubric: 'plain', cases: [], prompt_average: 3 });
    const grace = await aColleague(shared, ada);
    expect((await grace.get('/jobs', 200)).body).deep.include({ items: [] });
    await evaluatePrompt('evaluate-prompt-adhoc', adhoc, grace);
    expect(shared.model.requests).length(1);
    const { agent_prompt } = adhoc;
    const anchored = await evaluatePrompt('evaluate-prompt-adhoc', { agent_prompt, rubric: 'anchored' });
    expect(anchored.prompt_scores).length(6);
    expect(anchored.prompt_scores[0]).include({ severity: 'structural' });
  });

  it('of a single case use the chat model, temperature and max_tokens of the version', async () => {
    const chat_model = shared.config.models.chatModel;
    const of = await anEvaluableVersion(ada, { chat_model, temperature: 0.4, max_tokens: 99 });
    const reply = await ada.post('/agent-eval/evaluate-case', { ...of, case: feeCase }, 200);
    const result = caseResultSchema.parse(reply.body);
    expect(result).include({
      ...{ input: feeCase.input, generated_response: `An answer to ${feeCase.input} by ${persona}` },
      ...{ has_reference: true, response_average: 3 },
    });
    expect(result.response_scores).length(5);
    expect(shared.model.requests).length(2);
    expect(shared.model.requests[0]).include({ model: chat_model, temperature: 0.4, max_tokens: 99 });
  });

  describe('of two versions', () => {
    const cases = [feeCase, { input: 'How long?' }];
    /** Prefers the brief version in either order. */
    const brevityWins = judgeWell(({ messages }) => {
      const text = JSON.stringify(messages);
      const isFirstBrief = text.indexOf('Be brief.') < text.indexOf('The persona behind reply B');
      return { winner: isFirstBrief ? 'A' : 'B' };
    });
    const compare = async (body: object) =>
      comparisonResultSchema.parse((await ada.post('/agent-eval/compare', body, 200)).body);

    it('compare every case on every axis in both orders, and swap the winner with the versions', async () => {
      shared.model.behave(brevityWins);
      const [version, parent] = await twoEvaluableVersions(ada);
      const result = await compare({ ...version, cases });
      expect(result).deep.include({
        ...{ version_id: version.version_id, version_prompt_average: 3 },
        ...{ baseline_version_id: parent.version_id, baseline_prompt_average: 3 },
        summary: { version_wins: 9, baseline_wins: 0, ties: 0 },
      });
      expect(result.cases[1]).include({
        input: 'How long?',
        version_response: `An answer to How long? by ${persona} Be brief.`,
        baseline_response: `An answer to How long? by ${persona}`,
      });
      expect(result.cases.map(({ comparisons }) => comparisons.length)).deep.equal([5, 4]);
      expect(result.statistics.conclusion).match(/^Not significant/);
      const mirrored = await compare({ ...parent, baseline_version_id: version.version_id, cases });
      expect(mirrored.summary).deep.equal({ version_wins: 0, baseline_wins: 9, ties: 0 });
      // Two prompts, four answers, nine axes in both orders, and nothing for the mirrored comparison.
      expect(shared.model.requests).length(2 + 4 + 18);
    });

    it('answer 404 for a baseline of another draft, and 422 for a first version without a baseline', async () => {
      const of = await anEvaluableVersion(ada);
      const { version_id: baseline_version_id } = await anEvaluableVersion(ada);
      expect((await ada.post('/agent-eval/compare', { ...of, baseline_version_id }, 404)).body).include({
        code: 'version_not_found',
      });
      expect((await ada.post('/agent-eval/compare', of, 422)).body).include({ code: 'no_baseline' });
    });
  });
});
