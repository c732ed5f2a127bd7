import { expect } from 'chai';
import { problemSchema } from '#src/http/response/problem.ts';
import { type DraftVersionDto, draftVersionSchema } from '#src/modules/drafts/drafts.schema.ts';
import {
  anEvaluableVersion,
  commitVersion,
  type Evaluable,
  readVersion,
  startPath,
  twoEvaluableVersions,
} from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { isForJudge, judgeWell } from '#test/support/scripted-judge.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';
import { until } from '#test/support/until.ts';

const golden_cases = [
  { id: 'fee', prompt: 'What is the fee?', reference_answer: 'One percent.' },
  { id: 'term', prompt: 'How long?', reference_answer: '' },
];
/** Longer than the default wait, which CPU contention may exceed. */
const longWait: Record<string, string> = { prefer: 'wait=100' };
const noWait = { prefer: 'wait=0' };

describe('evaluations of draft versions', () => {
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
    Object(eval_scores).cases.map((each: { input: string; has_reference: boolean }) => [
      each.input,
      each.has_reference,
    ]);

  /** Holds back all answers of the model until the returned function is called. */
  function hold(): () => void {
    const released = Promise.withResolvers<void>();
    shared.model.behave(judgeWell(undefined, released.promise));
    return released.resolve;
  }

  it('judge the prompt, and store the scores with the version', async () => {
    const of = await anEvaluableVersion(ada, { golden_cases });
    const version = await start(of);
    expect(version).include({ id: of.version_id, eval_status: 'completed' });
    expect(version.eval_scores).deep.include({
      ...{ rubric: 'plain', rubric_version: 'r1', prompt_average: 3, overall_average: 3, samples: 1 },
      ...{ same_family: true, length_confounded: false, cases: [], failed_units: [], ci95: null },
    });
    expect(await readVersion(ada, of)).deep.equal(version);
  });

  it('judge all golden cases or only the named ones on request, and store the cases that are sent', async () => {
    const of = await anEvaluableVersion(ada);
    const all = await start(of, { golden_cases, run_golden: true });
    expect(inputsOf(all)).deep.equal([
      ['What is the fee?', true],
      ['How long?', false],
    ]);
    expect(all.eval_scores?.ci95).deep.equal([3, 3]);
    expect(all.golden_cases).deep.equal(golden_cases);
    expect(inputsOf(await start(of, { golden_case_ids: ['term'] }))).deep.equal([['How long?', false]]);
    expect(inputsOf(await start(of, { run_golden: false, golden_case_ids: ['term'] }))).deep.equal([]);
  });

  it('continue after the request stopped waiting, keep the earlier scores until they end, and are joined by concurrent starts', async () => {
    const of = await anEvaluableVersion(ada, { golden_cases });
    const { eval_scores } = await start(of);
    const path = `/agent-drafts/${of.draft_id}`;
    const etagNow = async () => (await ada.get(path, 200)).headers.get('etag') ?? '';
    const before = await etagNow();
    const release = hold();
    const starts = Array.from({ length: 50 }, (_, index) => start(of, { run_golden: index % 2 === 0 }, noWait));
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

  it('leave the scores that a commit has sent unchanged, whatever their form', async () => {
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

  it('are deleted with their version, and with their draft', async () => {
    const [version] = await twoEvaluableVersions(ada);
    await start(version, { golden_cases, run_golden: true });
    const { db } = shared.container;
    const rows = async () => {
      const tables = ['evaluationRuns', 'evaluationUnits', 'judgements', 'generatedAnswers'];
      const counts = tables.map((table) => db(table).where({ orgId: ada.orgId }).count<{ count: number }[]>());
      return (await Promise.all(counts)).map(([row]) => row?.count);
    };
    expect(await rows()).deep.equal([1, 18 + 2 + 27, 18 + 27, 2]);
    await ada.delete(`/agent-drafts/${version.draft_id}/versions/${version.version_id}`, 204);
    expect(await rows()).deep.equal([0, 0, 0, 0]);
    const other = await anEvaluableVersion(ada, { golden_cases });
    await start(other, { run_golden: true });
    await ada.delete(`/agent-drafts/${other.draft_id}`, 204);
    expect(await rows()).deep.equal([0, 0, 0, 0]);
  });

  it('are refused over the daily limit of cases (409)', async () => {
    const { db } = shared.container;
    const day = db.raw(`(now() at time zone 'utc')::date`);
    await db('evaluationDays').insert({ orgId: ada.orgId, day, cases: 499 });
    const of = await anEvaluableVersion(ada, { golden_cases });
    const { body } = await ada.post(startPath(of), { run_golden: true }, 409);
    expect(body).include({ code: 'evaluation_case_limit_reached' });
    expect((await readVersion(ada, of)).eval_status).equal(null);
    await start(of, { golden_case_ids: ['fee'] });
  });

  it('are refused for a version of another draft (404), and for unknown or too many golden cases (422)', async () => {
    const of = await anEvaluableVersion(ada, { golden_cases });
    const { draft_id } = await anEvaluableVersion(ada);
    const elsewhere = await ada.post(startPath({ ...of, draft_id }), {}, 404);
    expect(elsewhere.body).include({ code: 'version_not_found' });
    const many = Array.from({ length: 21 }, (_, index) => ({ id: `${index}`, prompt: 'x' }));
    for (const [code, body] of [
      ['unknown_golden_case', { golden_case_ids: ['fee', 'nobody'] }],
      ['validation_failed', { golden_cases: many, run_golden: true }],
    ] as const) {
      const problem = problemSchema.parse((await ada.post(startPath(of), body, 422)).body);
      expect(problem).nested.include({ code, 'errors[0].path': 'golden_case_ids' });
    }
    expect((await readVersion(ada, of)).golden_cases).deep.equal(golden_cases);
  });

  describe('have a report, which', () => {
    let path: string;
    let author: Member;
    before(async () => {
      author = await shared.signUp();
      shared.model.behave(judgeWell());
      const [version, parent] = await twoEvaluableVersions(author);
      const sent = { golden_cases: [{ id: 'fee', prompt: '<b>What?</b>' }], run_golden: true };
      for (const each of [parent, version]) await author.post(startPath(each), sent, 200, longWait);
      const { eval_scores } = await readVersion(author, version);
      expect(eval_scores).include({ rubric: 'anchored', samples: 3, length_confounded: false });
      path = `/agent-drafts/${version.draft_id}/versions/${version.version_id}/eval/report`;
    });

    it('is Markdown, JSON or HTML, with scores beside those of the parent version and escaped markup', async () => {
      const markdown = await author.get(path, 200);
      expect(markdown.headers.get('content-type')).match(/^text\/markdown/);
      expect(markdown.headers.get('content-disposition')).match(/^attachment; filename="Lena v2 evaluation\.md"/);
      expect(String(markdown.body)).match(/^# Evaluation of Lena, version 2[\s\S]*Role/);

      const report = Object((await author.get(`${path}?format=json`, 200)).body);
      expect(report).deep.include({ agent_name: 'Lena', failed_units: [] });
      expect(report.averages.overall).deep.equal({ score: 3, parent: 3, change: 0 });

      const html = await author.get(`${path}?format=html`, 200);
      expect(html.headers.get('content-type')).match(/^text\/html/);
      expect(html.body).include('<svg').not.include('<b>What?');
    });

    it('can be read in ranges (206, 416); 400 for another format, and 404 before there are scores', async () => {
      const part = await author.get(path, 206, { range: 'bytes=0-9' });
      expect(part.body).length(10);
      await author.get(path, 416, { range: 'bytes=9999999-' });
      const other = await author.get(`${path}?format=pdf`, 400);
      expect(other.body).include({ code: 'unsupported_report_format' });
      const { draft_id, version_id } = await anEvaluableVersion(author);
      const none = await author.get(`/agent-drafts/${draft_id}/versions/${version_id}/eval/report`, 404);
      expect(none.body).include({ code: 'evaluation_not_found' });
    });
  });
});
