import { expect } from 'chai';
import { problemSchema } from '#src/http/response/problem.ts';
import { type DraftVersionDto, draftVersionSchema } from '#src/modules/drafts/drafts.schema.ts';
import { comparisonWithResultSchema } from '#src/modules/evaluations/comparisons.schema.ts';
import { comparisonResultSchema } from '#src/modules/evaluations/evaluations.schema.ts';
import {
  aColleague,
  aComparison,
  anAgentOfDraft,
  anEvaluableVersion,
  anIngestedDocument,
  ask,
  commitVersion,
  type Evaluable,
  evaluate,
  listComparisons,
  persona,
  readVersion,
  startPath,
  twoEvaluableVersions,
} from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { itHoldsTheLimit, post } from '#test/support/concurrent-requests.ts';
import { isForJudge, judgeWell } from '#test/support/scripted-judge.ts';
import type { Behaviour, ChatRequest } from '#test/support/scripted-model.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';
import { until } from '#test/support/until.ts';
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

const golden_cases = [
  { id: 'fee', prompt: 'What is the fee?', reference_answer: 'One percent.' },
  { id: 'term', prompt: 'How long?', reference_answer: '' },
];
/** Longer than the default wait, which CPU contention may exceed. */
const longWait: Record<string, string> = { prefer: 'wait=100' };
const noWait = { prefer: 'wait=0' };
/** Counts cases of today as used, of the 500 that the tier allows. */
const useUp = async ({ container: { db } }: ScriptedStack, { orgId }: Member, cases: number) =>
  db('evaluationDays').insert({ orgId, day: db.raw(`(now() at time zone 'utc')::date`), cases });

describe('evaluations', () => {
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

  const evaluatePrompt = async (body: object, member = ada) =>
    Object((await member.post('/agent-eval/evaluate-prompt-adhoc', body, 200)).body);

  for (const [path, newBody] of Object.entries(operations)) {
    it(`by POST ${path} answer 502 and name a missing verdict, and ask the model only for that verdict when repeated`, async () => {
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

    it(`by POST ${path} answer 504 with the id of the job, which continues, if the job lasts longer than the client waits`, async () => {
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

    it(`by POST ${path} answer 409 over the daily limit, 404 for an unknown version, and 422 for an unknown judge`, async () => {
      const body = await newBody(ada);
      const codeOf = async (changes: object, status: number) =>
        problemSchema.parse((await ada.post(path, { ...body, ...changes }, status)).body).code;
      expect(await codeOf({ evaluator_model: 'nobody-9000' }, 422)).equal('unknown_model');
      if ('version_id' in body) expect(await codeOf({ version_id: unknownId }, 404)).equal('version_not_found');
      await useUp(shared, ada, 500);
      expect(await codeOf({}, 409)).equal('evaluation_case_limit_reached');
      expect(shared.model.requests).deep.equal([]);
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

  it('of a prompt without a draft have a job that colleagues cannot see, and reuse the verdict if a colleague repeats one', async () => {
    const result = await evaluatePrompt(adhoc);
    expect(result).deep.include({ agent_id: null, rubric: 'plain', cases: [], prompt_average: 3 });
    const grace = await aColleague(shared, ada);
    expect((await grace.get('/jobs', 200)).body).deep.include({ items: [] });
    await evaluatePrompt(adhoc, grace);
    expect(shared.model.requests).length(1);
    const { agent_prompt } = adhoc;
    const anchored = await evaluatePrompt({ agent_prompt, rubric: 'anchored' });
    expect(anchored.prompt_scores).length(6);
    expect(anchored.prompt_scores[0]).include({ severity: 'structural' });
  });

  it('of a single case use the chat model, temperature and max_tokens of the version', async () => {
    const chat_model = shared.config.models.chatModel;
    const of = await anEvaluableVersion(ada, { chat_model, temperature: 0.4, max_tokens: 99 });
    const { body } = await ada.post('/agent-eval/evaluate-case', { ...of, case: feeCase }, 200);
    expect(body).include({ input: feeCase.input, has_reference: true, response_average: 3 });
    expect(shared.model.requests).length(2);
    expect(shared.model.requests[0]).include({ model: chat_model, temperature: 0.4, max_tokens: 99 });
  });

  describe('with documents', () => {
    const rule = 'The fee for an early repayment of a loan is two percent of the remaining debt.';
    const question = 'What is the fee for an early repayment?';
    const withoutNonces = (messages: object) => JSON.stringify(messages).replaceAll(/[0-9a-f]{16}/g, 'nonce');
    /** Replies cite a passage that exists and one that does not. */
    const citing = (request: ChatRequest): Behaviour =>
      isForJudge(request)
        ? judgeWell()(request)
        : { kind: 'answer', text: 'It is two percent of the remaining debt [1][7].' };
    const asked = () => shared.model.requests.filter((request) => !isForJudge(request));

    it('send the model what a published agent sends it, and judge the reply as a user would read it', async () => {
      await anIngestedDocument(ada, 'Fees', rule);
      shared.model.behave(citing);
      const chat_model = shared.config.models.chatModel;
      const of = await anEvaluableVersion(ada, { chat_model, anchor_words: { loan: 5 } });
      const { cases } = await evaluate(ada, { ...of, cases: [{ input: question }], with_documents: true });
      expect(cases[0]?.generated_response).equal('It is two percent of the remaining debt [1].');
      const [evaluated] = asked();

      const agent = await anAgentOfDraft(ada, { id: of.draft_id, head_version_id: of.version_id });
      shared.model.behave(citing);
      await ask(ada, { agent_id: agent.id, message: question }, 201);
      const [chatted] = asked();
      expect(withoutNonces(evaluated?.messages ?? [])).equal(withoutNonces(chatted?.messages ?? []));
      expect(withoutNonces(evaluated?.messages ?? [])).include(rule);
    });

    it('are cached until the documents of the caller change; the model is then asked only where it reads other passages', async () => {
      await anIngestedDocument(ada, 'Fees', rule);
      const of = await anEvaluableVersion(ada);
      const cases = [{ input: question }, { input: 'How are flumbriums watered?' }];
      const questionsOf = async (body: object) => {
        shared.model.behave(citing);
        await evaluate(ada, { ...of, cases, ...body });
        return asked().map(({ messages }) => messages.at(-1)?.content);
      };
      expect(await questionsOf({ with_documents: true })).length(2);
      expect(await questionsOf({ with_documents: true })).deep.equal([]);
      await anIngestedDocument(ada, 'Plants', 'Flumbriums are watered each morning.');
      expect(await questionsOf({ with_documents: true })).include('How are flumbriums watered?');
      expect(await questionsOf({})).length(2);
    });
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

    it('compare every case on every axis in both orders, and let the same version win when the two are swapped', async () => {
      shared.model.behave(brevityWins);
      const [version, parent] = await twoEvaluableVersions(ada);
      const result = await compare({ ...version, cases });
      expect(result).include({ version_id: version.version_id, version_prompt_average: 3 });
      expect(result).include({ baseline_version_id: parent.version_id, baseline_prompt_average: 3 });
      expect(result.summary).deep.equal({ version_wins: 9, baseline_wins: 0, ties: 0 });
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

    it('run the golden cases of the version after the other cases if the request asks for them or names some', async () => {
      const [version] = await twoEvaluableVersions(ada, { golden_cases });
      const casesOf = async (body: object) =>
        (await compare({ ...version, ...body })).cases.map(({ id, input, reference_answer }) => [
          id,
          input,
          reference_answer,
        ]);
      expect(await casesOf({ cases: [{ input: 'When?' }], run_golden: true })).deep.equal([
        [null, 'When?', ''],
        ['fee', 'What is the fee?', 'One percent.'],
        ['term', 'How long?', ''],
      ]);
      expect(await casesOf({ golden_case_ids: ['term'] })).deep.equal([['term', 'How long?', '']]);
      for (const [body, code] of [
        [{ golden_case_ids: ['nobody'] }, 'unknown_golden_case'],
        [{ cases: Array(19).fill({ input: 'x' }), run_golden: true }, 'validation_failed'],
      ] as const) {
        expect((await ada.post('/agent-eval/compare', { ...version, ...body }, 422)).body).nested.include({
          code,
          'errors[0].path': 'golden_case_ids',
        });
      }
    });

    it('are listed in pages, newest first, for all readers of the draft, and filtered by draft and version', async () => {
      const shared_draft = { visibility: 'org_level' };
      const [version, parent] = await twoEvaluableVersions(ada);
      await ada.patch(`/agent-drafts/${version.draft_id}/scope`, shared_draft, 200);
      const first = await aComparison(ada, version, { baseline_version_id: parent.version_id, cases });
      const second = await aComparison(ada, parent, { with_documents: true, cases: [{ input: 'When?' }] });
      const personal = await anEvaluableVersion(ada);
      const third = await aComparison(ada, personal);

      const grace = await aColleague(shared, ada);
      const idsOf = async (client: Member, query = '') =>
        (await listComparisons(client, query)).items.map(({ id }) => id);
      expect(await idsOf(ada)).deep.equal([third, second, first]);
      expect(await idsOf(grace)).deep.equal([second, first]);
      expect(await idsOf(await shared.signUp())).deep.equal([]);
      expect(await idsOf(ada, `?draft_id=${version.draft_id}`)).deep.equal([second, first]);
      expect(await idsOf(ada, `?version_id=${version.version_id}`)).deep.equal([first]);

      const page = await listComparisons(ada, '?limit=2');
      expect(page.items[1]).deep.include({
        ...{ id: second, ...parent, baseline_version_id: parent.version_id, agent_name: 'Lena' },
        ...{ version_title: 'v1', baseline_version_title: 'v1', case_count: 1, with_documents: true },
        ...{ status: 'completed', summary: { version_wins: 0, baseline_wins: 0, ties: 4 } },
      });
      expect(await idsOf(ada, `?limit=2&cursor=${page.next_cursor}`)).deep.equal([first]);
    });

    it('can be read again, and as a report in Markdown, JSON or HTML', async () => {
      shared.model.behave(brevityWins);
      const golden = { id: 'fee', prompt: '<b>What?</b>', reference_answer: 'One <i>percent</i>.' };
      const [version, parent] = await twoEvaluableVersions(ada, { golden_cases: [golden] });
      const id = await aComparison(ada, version, { baseline_version_id: parent.version_id, run_golden: true });
      const path = `/agent-eval/comparisons/${id}`;
      const { result } = comparisonWithResultSchema.parse((await ada.get(path, 200)).body);
      const body = { ...version, baseline_version_id: parent.version_id, run_golden: true };
      expect(result).deep.equal(await compare(body));
      expect(result?.cases[0]).include({ id: 'fee', reference_answer: golden.reference_answer });

      const markdown = await ada.get(`${path}/report`, 200);
      expect(markdown.headers.get('content-disposition')).match(/^attachment; filename="Lena v2 against v1\.md"/);
      expect(markdown.body).match(/^# Lena: version 2 \(v2\) against version 1 \(v1\)/);
      expect(markdown.body).include('| Case 1, fee | 5 | 0 | 0 |').and.include('```text\nOne <i>percent</i>.\n```');
      const report = Object((await ada.get(`${path}/report?format=json`, 200)).body);
      expect(report).deep.include({ agent_name: 'Lena', wins: { version: 5, baseline: 0, ties: 0 } });
      const html = await ada.get(`${path}/report?format=html`, 200);
      expect(html.headers.get('content-type')).match(/^text\/html/);
      expect(html.body).include('<pre>&lt;b&gt;What?&lt;/b&gt;</pre>').and.include('the version wins');

      expect((await ada.get(`${path}/report`, 206, { range: 'bytes=0-9' })).body).length(10);
      await ada.get(`${path}/report`, 416, { range: 'bytes=9999999-' });
      expect((await ada.get(`${path}/report?format=pdf`, 400)).body).include({ code: 'unsupported_report_format' });
      for (const gone of ['compare-0123', 'evaluate-0123']) {
        const none = await ada.get(`/agent-eval/comparisons/${gone}`, 404);
        expect(none.body).include({ code: 'comparison_not_found' });
      }
    });

    it('have no result and no report while they run, and after they failed', async () => {
      const [version] = await twoEvaluableVersions(ada);
      const { promise: released, resolve: release } = Promise.withResolvers<void>();
      const useless = (request: ChatRequest): Behaviour => ({
        ...{ kind: 'answer', until: released },
        text: isForJudge(request) ? 'Five stars.' : 'An answer.',
      });
      shared.model.behave(useless);
      await ada.post('/agent-eval/compare', version, 504, noWait);
      const statusNow = async () => {
        const [item] = (await listComparisons(ada)).items;
        const { status, summary, result } = comparisonWithResultSchema.parse(
          (await ada.get(`/agent-eval/comparisons/${item?.id}`, 200)).body,
        );
        expect([summary, result]).deep.equal([null, null]);
        const none = await ada.get(`/agent-eval/comparisons/${item?.id}/report`, 404);
        expect(none.body).include({ code: 'evaluation_not_found' });
        return status;
      };
      expect(await statusNow()).oneOf(['queued', 'running']);
      release();
      await until('the comparison has failed', async () => (await statusNow()) === 'failed');
    });

    it('answer 404 if the baseline is of another draft, and 422 if the first version of a draft is given no baseline', async () => {
      const of = await anEvaluableVersion(ada);
      const { version_id: baseline_version_id } = await anEvaluableVersion(ada);
      const elsewhere = await ada.post('/agent-eval/compare', { ...of, baseline_version_id }, 404);
      expect(elsewhere.body).include({ code: 'version_not_found' });
      expect((await ada.post('/agent-eval/compare', of, 422)).body).include({ code: 'no_baseline' });
    });
  });

  describe('of draft versions', () => {
    async function start(of: Evaluable, body: object = {}, headers = longWait): Promise<DraftVersionDto> {
      return draftVersionSchema.parse((await ada.post(startPath(of), body, 200, headers)).body);
    }
    const ended = (of: Evaluable, status: string) =>
      until(`the evaluation has ${status}`, async () => {
        const version = await readVersion(ada, of);
        return version.eval_status === status && version;
      });
    const jobs = async (): Promise<{ id: string; kind: string; status: string }[]> =>
      Object((await ada.get('/jobs', 200)).body).items;
    const inputsOf = ({ eval_scores }: DraftVersionDto) =>
      Object(eval_scores).cases.map((each: { input: string }) => each.input);

    it('judge the prompt and, on request, all or some golden cases, and store golden cases that the request sends', async () => {
      const of = await anEvaluableVersion(ada);
      const version = await start(of);
      expect(version).include({ id: of.version_id, eval_status: 'completed' });
      const { eval_scores } = version;
      expect(eval_scores).include({ rubric: 'plain', rubric_version: 'r1', samples: 1, same_family: true });
      expect(eval_scores).include({ prompt_average: 3, overall_average: 3, ci95: null, length_confounded: false });
      expect(eval_scores).deep.include({ cases: [], failed_units: [] });
      expect(await readVersion(ada, of)).deep.equal(version);
      const all = await start(of, { golden_cases, run_golden: true });
      expect(inputsOf(all)).deep.equal(['What is the fee?', 'How long?']);
      expect(all.eval_scores?.ci95).deep.equal([3, 3]);
      expect(all.golden_cases).deep.equal(golden_cases);
      expect(inputsOf(await start(of, { golden_case_ids: ['term'] }))).deep.equal(['How long?']);
      expect(inputsOf(await start(of, { run_golden: false, golden_case_ids: ['term'] }))).deep.equal([]);
    });

    it('continue after the request, keep the earlier scores until they end, and run once for concurrent requests', async () => {
      const of = await anEvaluableVersion(ada, { golden_cases });
      const { eval_scores } = await start(of);
      const path = `/agent-drafts/${of.draft_id}`;
      const etagNow = async () => (await ada.get(path, 200)).headers.get('etag') ?? '';
      const before = await etagNow();
      const { promise: released, resolve: release } = Promise.withResolvers<void>();
      shared.model.behave(judgeWell(undefined, released));
      const starts = Array.from({ length: 8 }, () => start(of, { run_golden: true }, noWait));
      for (const version of await Promise.all(starts)) {
        expect(version.eval_status).oneOf(['queued', 'running', 'completed']);
        expect(version.eval_scores).deep.equal(eval_scores);
      }
      const started = await etagNow();
      await ended(of, 'running');
      release();
      expect((await ended(of, 'completed')).eval_scores?.cases).length(2);
      expect(await jobs()).length(2);
      // The ETag of the draft changes when they start, and not when they end.
      const rename = (title: string, status: number, etag: string) =>
        ada.patch(`${path}/versions/${of.version_id}`, { title }, status, { 'if-match': etag });
      await rename('One', 412, before);
      await rename('Two', 200, started);
    });

    it('are partial if some cases cannot be answered; a retry asks only for the missing answers', async () => {
      const of = await anEvaluableVersion(ada, { golden_cases });
      shared.model.behave((request) =>
        !isForJudge(request) && JSON.stringify(request.messages).includes('How long?')
          ? { kind: 'status', status: 400 }
          : judgeWell()(request),
      );
      const version = await start(of, { run_golden: true });
      expect(version.eval_status).equal('partial');
      expect(version.eval_scores).deep.include({ failed_units: [{ unit: 'case 2 answer', code: 'model_rejected' }] });
      const [job] = await jobs();
      expect(job).include({ kind: 'evaluate', status: 'failed' });
      shared.model.behave(judgeWell());
      await ada.post(`/jobs/${job?.id}/retry`, undefined, 202);
      expect((await ended(of, 'completed')).eval_scores).deep.include({ failed_units: [] });
      expect(shared.model.requests).length(2);
    });

    it('fail and keep earlier scores if the prompt or most cases could not be judged', async () => {
      const of = await anEvaluableVersion(ada, { golden_cases });
      const { eval_scores } = await start(of);
      shared.model.behave(() => ({ kind: 'answer', text: 'Five out of five.' }));
      expect(await start(of, { run_golden: true })).deep.include({ eval_status: 'failed', eval_scores });
      const other = await anEvaluableVersion(ada, { agent_prompt: 'Another one.' });
      expect(await start(other)).include({ eval_status: 'failed', eval_scores: null });
    });

    it('succeed even if the parent version has scores of another form, which a client sent with its commit', async () => {
      const { draft_id, version_id: first } = await anEvaluableVersion(ada);
      const eval_scores = { prompt_average: 4.5, cases: [{ input: 'How long?' }] };
      const { id: second } = await commitVersion(ada, draft_id, { parent_version_id: first, eval_scores });
      const committed = await readVersion(ada, { draft_id, version_id: second });
      expect(committed).deep.include({ eval_scores, eval_status: null });
      const { id: version_id } = await commitVersion(ada, draft_id, { parent_version_id: second });
      const version = await start({ draft_id, version_id });
      expect(version).include({ eval_status: 'completed' });
      expect(await start({ draft_id, version_id })).deep.equal(version);
    });

    it('are deleted with their version or draft, so that the model evaluates an equal new version again', async () => {
      const evaluateNew = async () => {
        const of = await anEvaluableVersion(ada, { golden_cases });
        shared.model.behave(judgeWell());
        await start(of, { run_golden: true });
        // The prompt, two answers and their verdicts.
        expect(shared.model.requests).length(5);
        return of;
      };
      const first = await evaluateNew();
      await ada.delete(`/agent-drafts/${first.draft_id}`, 204);
      const { draft_id, version_id } = await evaluateNew();
      await commitVersion(ada, draft_id, { parent_version_id: version_id });
      await ada.delete(`/agent-drafts/${draft_id}/versions/${version_id}`, 204);
      await evaluateNew();
    });

    it('answer 404 for a version of another draft, 422 for unknown or too many golden cases, and 409 over the daily limit', async () => {
      await useUp(shared, ada, 499);
      const of = await anEvaluableVersion(ada, { golden_cases });
      const { draft_id } = await anEvaluableVersion(ada);
      const many = Array.from({ length: 21 }, (_, index) => ({ id: `${index}`, prompt: 'x' }));
      const path = 'golden_case_ids';
      for (const [at, body, status, problem] of [
        [{ ...of, draft_id }, {}, 404, { code: 'version_not_found' }],
        [of, { [path]: ['fee', 'nobody'] }, 422, { code: 'unknown_golden_case', 'errors[0].path': path }],
        [of, { golden_cases: many, run_golden: true }, 422, { code: 'validation_failed', 'errors[0].path': path }],
        [of, { run_golden: true }, 409, { code: 'evaluation_case_limit_reached' }],
      ] as const) {
        expect((await ada.post(startPath(at), body, status)).body).nested.include(problem);
      }
      expect(await readVersion(ada, of)).deep.include({ golden_cases, eval_status: null });
      await start(of, { golden_case_ids: ['fee'] });
    });

    it('have a report in Markdown, JSON or HTML, which also shows the scores of the parent version', async () => {
      const [version, parent] = await twoEvaluableVersions(ada);
      const golden = { id: 'fee', prompt: '<b>What?</b>', reference_answer: 'One <i>percent</i>.' };
      const sent = { golden_cases: [golden], run_golden: true };
      for (const each of [parent, version]) await start(each, sent);
      const { eval_scores } = await readVersion(ada, version);
      expect(eval_scores).include({ rubric: 'anchored', samples: 3, length_confounded: false });
      const pathOf = ({ draft_id, version_id }: Evaluable) =>
        `/agent-drafts/${draft_id}/versions/${version_id}/eval/report`;
      const path = pathOf(version);
      const markdown = await ada.get(path, 200);
      expect(markdown.headers.get('content-type')).match(/^text\/markdown/);
      expect(markdown.headers.get('content-disposition')).match(/^attachment; filename="Lena v2 evaluation\.md"/);
      expect(String(markdown.body)).match(/^# Evaluation of Lena, version 2[\s\S]*Role/);
      expect(markdown.body)
        .include('### Case 1, fee: 3.00')
        .and.include('Reference answer:\n\n```text\nOne <i>percent</i>.');
      const report = Object((await ada.get(`${path}?format=json`, 200)).body);
      expect(report).deep.include({ agent_name: 'Lena', failed_units: [] });
      expect(report.cases[0]).include({ id: 'fee', reference_answer: golden.reference_answer, number: 1 });
      expect(report.averages.overall).deep.equal({ score: 3, parent: 3, change: 0 });
      const html = await ada.get(`${path}?format=html`, 200);
      expect(html.headers.get('content-type')).match(/^text\/html/);
      expect(html.body).include('<svg').not.include('<b>What?');
      expect(html.body).include('<h3>Case 1, fee: 3.00').and.include('<pre>One &lt;i&gt;percent&lt;/i&gt;.</pre>');

      expect((await ada.get(path, 206, { range: 'bytes=0-9' })).body).length(10);
      await ada.get(path, 416, { range: 'bytes=9999999-' });
      expect((await ada.get(`${path}?format=pdf`, 400)).body).include({ code: 'unsupported_report_format' });
      const none = await ada.get(pathOf(await anEvaluableVersion(ada)), 404);
      expect(none.body).include({ code: 'evaluation_not_found' });
    });
  });
});
