import { expect } from 'chai';
import { problemSchema } from '#src/http/response/problem.ts';
import { type DraftVersionDto, draftVersionSchema } from '#src/modules/drafts/drafts.schema.ts';
import {
  aColleague,
  anEvaluableVersion,
  commitVersion,
  evaluate,
  readDraft,
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
const unknownId = '00000000-0000-4000-8000-000000000000';

describe('POST /agent-drafts/{draft_id}/versions/{version_id}/eval/start', () => {
  let shared: ScriptedStack;
  let ada: Member;
  before(async () => {
    shared = await scriptedStack();
  });
  beforeEach(async () => {
    ada = await shared.signUp();
    shared.model.behave(judgeWell());
  });

  type Evaluable = Awaited<ReturnType<typeof anEvaluableVersion>>;
  async function start(of: Evaluable, body: object = {}, headers = longWait): Promise<DraftVersionDto> {
    return draftVersionSchema.parse((await ada.post(startPath(of), body, 200, headers)).body);
  }
  const ended = (of: Evaluable, status: string) =>
    until(`the evaluation has ${status}`, async () => {
      const version = await readVersion(ada, of);
      return version.eval_status === status && version;
    });
  const jobOf = async (): Promise<{ id: string; kind: string; status: string }> =>
    Object((await ada.get('/jobs', 200)).body).items[0];

  /** Holds back all answers of the model until the returned function is called. */
  function hold(): () => void {
    const released = Promise.withResolvers<void>();
    shared.model.behave(judgeWell(undefined, released.promise));
    return released.resolve;
  }

  it('200: judges the prompt, and the scores stay with the version', async () => {
    const of = await anEvaluableVersion(ada, { golden_cases });
    const version = await start(of);
    expect(version).include({ id: of.version_id, eval_status: 'completed' });
    expect(version.eval_scores).include({
      rubric: 'plain',
      prompt_average: 3,
      overall_average: 3,
      samples: 1,
      same_family: true,
      length_confounded: false,
      rubric_version: 'r1',
    });
    expect(version.eval_scores).deep.include({ cases: [], failed_units: [], ci95: null });
    expect(await readVersion(ada, of)).deep.equal(version);
  });

  it('changes the ETag of the draft when it starts, and not when it ends', async () => {
    const of = await anEvaluableVersion(ada, { golden_cases });
    const path = `/agent-drafts/${of.draft_id}`;
    const etagNow = async () => (await ada.get(path, 200)).headers.get('etag') ?? '';
    const rename = (title: string, status: number, etag: string) =>
      ada.patch(`${path}/versions/${of.version_id}`, { title }, status, { 'if-match': etag });
    const before = await etagNow();
    const release = hold();
    await start(of, {}, { prefer: 'wait=0' });
    const started = await etagNow();
    release();
    await ended(of, 'completed');
    await rename('One', 412, before);
    await rename('Two', 200, started);
  });

  it('200: judges the golden cases, with accuracy where there is a reference', async () => {
    const of = await anEvaluableVersion(ada, { golden_cases });
    const { eval_scores } = await start(of, { run_golden: true });
    expect(eval_scores?.cases).length(2);
    expect(Object(eval_scores).cases[0]).include({ input: 'What is the fee?', has_reference: true });
    expect(Object(eval_scores).cases[1]).include({ input: 'How long?', has_reference: false });
    expect(eval_scores?.ci95).deep.equal([3, 3]);
  });

  it('200: stores the golden cases that are sent, and runs only the named ones', async () => {
    const of = await anEvaluableVersion(ada);
    const version = await start(of, { golden_cases, golden_case_ids: ['term'] });
    expect(version.golden_cases).deep.equal(golden_cases);
    expect(Object(version.eval_scores).cases.map(({ input }: { input: string }) => input)).deep.equal(['How long?']);
    const without = await start(of, { run_golden: false, golden_case_ids: ['term'] });
    expect(without.eval_scores?.cases).deep.equal([]);
  });

  it('200: returns existing scores without calling a model', async () => {
    const of = await anEvaluableVersion(ada);
    const result = await evaluate(ada, of);
    const version = await start(of);
    expect(version.eval_scores).include({ prompt_average: result.prompt_average });
    expect(await start(of)).deep.equal(version);
    expect(shared.model.requests).length(1);
    expect(Object((await ada.get('/jobs', 200)).body).items).length(1);
  });

  it('200: returns the running status and the earlier scores when the wait ends', async () => {
    const of = await anEvaluableVersion(ada, { golden_cases });
    const before = await start(of);
    const release = hold();
    const waiting = await start(of, { run_golden: true }, { prefer: 'wait=0' });
    expect(waiting.eval_status).oneOf(['queued', 'running']);
    expect(waiting.eval_scores).deep.equal(before.eval_scores);
    await ended(of, 'running');
    release();
    expect((await ended(of, 'completed')).eval_scores?.cases).length(2);
  });

  it('200: joins the running evaluation, also for fifty concurrent starts', async () => {
    const of = await anEvaluableVersion(ada, { golden_cases });
    const release = hold();
    const asked = Array.from({ length: 50 }, (_, index) =>
      start(of, { run_golden: index % 2 === 0 }, { prefer: 'wait=0' }),
    );
    for (const version of await Promise.all(asked)) expect(version.eval_status).oneOf(['queued', 'running']);
    release();
    await ended(of, 'completed');
    expect(Object((await ada.get('/jobs', 200)).body).items).length(1);
  });

  it('200: returns the same answer for the same Idempotency-Key', async () => {
    const of = await anEvaluableVersion(ada);
    const key = { ...longWait, 'Idempotency-Key': of.version_id };
    expect(await start(of, {}, key)).deep.equal(await start(of, {}, key));
  });

  it('200: reports partial and names the cases if some cannot be answered', async () => {
    const of = await anEvaluableVersion(ada, { golden_cases });
    const fails = (text: string) => text.includes('How long?');
    shared.model.behave((request) =>
      !isForJudge(request) && fails(JSON.stringify(request.messages))
        ? { kind: 'status', status: 400 }
        : judgeWell()(request),
    );
    const version = await start(of, { run_golden: true });
    expect(version.eval_status).equal('partial');
    expect(version.eval_scores).deep.include({ failed_units: [{ unit: 'case 2 answer', code: 'model_rejected' }] });
    expect(await jobOf()).deep.include({ kind: 'evaluate', status: 'failed' });
    // A retry asks only for what is missing.
    shared.model.behave(judgeWell());
    await ada.post(`/jobs/${(await jobOf()).id}/retry`, undefined, 202);
    expect((await ended(of, 'completed')).eval_scores).deep.include({ failed_units: [] });
    expect(shared.model.requests).length(2);
  });

  it('200: reports failed and keeps earlier scores if the prompt or most cases could not be judged', async () => {
    const of = await anEvaluableVersion(ada, { golden_cases });
    const { eval_scores } = await start(of);
    shared.model.behave(() => ({ kind: 'answer', text: 'Five out of five.' }));
    expect(await start(of, { run_golden: true })).deep.include({ eval_status: 'failed', eval_scores });
    const other = await anEvaluableVersion(ada, { agent_prompt: 'Another one.' });
    expect(await start(other)).include({ eval_status: 'failed', eval_scores: null });
  });

  it('200: reports canceled when the job is canceled', async () => {
    const of = await anEvaluableVersion(ada);
    const release = hold();
    await start(of, {}, { prefer: 'wait=0' });
    await ended(of, 'running');
    await ada.post(`/jobs/${(await jobOf()).id}/cancel`, undefined, 202);
    release();
    expect(await ended(of, 'canceled')).include({ eval_scores: null });
    expect((await start(of)).eval_status).equal('completed');
  });

  it('200: uses the anchored rubric and the scores of the parent', async () => {
    const [version, parent] = await twoEvaluableVersions(ada);
    await start(parent, { golden_cases, run_golden: true });
    const { eval_scores } = await start(version, { golden_cases, run_golden: true });
    expect(eval_scores).include({ rubric: 'anchored', samples: 3, length_confounded: false });
  });

  it('200: completes even if the committed scores of the parent are unreadable', async () => {
    const { draft_id, version_id: first } = await anEvaluableVersion(ada);
    const eval_scores = { cases: [{ input: 'How long?' }] };
    const parent = await commitVersion(ada, draft_id, { parent_version_id: first, eval_scores });
    await start({ draft_id, version_id: parent.id }, {}, { prefer: 'wait=0' });
    const { id: version_id } = await commitVersion(ada, draft_id, { parent_version_id: parent.id });
    const version = await start({ draft_id, version_id });
    expect(version).include({ eval_status: 'completed' });
    expect(await start({ draft_id, version_id })).deep.equal(version);
  });

  it('200: scores that are sent with a commit are kept as they are', async () => {
    const { draft_id, version_id: parent_version_id } = await anEvaluableVersion(ada);
    const eval_scores = { prompt_average: 4.5, of: 'my own' };
    const { id } = await commitVersion(ada, draft_id, { parent_version_id, eval_scores });
    expect(await readVersion(ada, { draft_id, version_id: id })).deep.include({ eval_scores, eval_status: null });
  });

  it('200: deletes the results with the version, and with the draft', async () => {
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

  it('200: fails the job and stores nothing when the version is deleted during the evaluation', async () => {
    const [version] = await twoEvaluableVersions(ada);
    const release = hold();
    await start(version, {}, { prefer: 'wait=0' });
    await until('the judge is asked', async () => shared.model.requests.length > 0);
    const { id } = await jobOf();
    await ada.delete(`/agent-drafts/${version.draft_id}/versions/${version.version_id}`, 204);
    release();
    const job = await until('the job has failed', async () => {
      const { body } = await ada.get(`/jobs/${id}`, 200);
      return Object(body).status === 'failed' && Object(body);
    });
    expect(job.last_error.code).equal('version_not_found');
    expect(await shared.container.db('judgements').where({ orgId: ada.orgId })).deep.equal([]);
    expect((await readDraft(ada, version.draft_id)).versions).length(1);
  });

  it('401, 403 and 404: rejects anonymous callers, readers, and unknown drafts or versions', async () => {
    const of = await anEvaluableVersion(ada);
    await shared.anonymous.post(startPath(of), {}, 401);
    const grace = await aColleague(shared, ada);
    await grace.post(startPath(of), {}, 404);
    await ada.patch(`/agent-drafts/${of.draft_id}/scope`, { visibility: 'org_level' }, 200);
    await grace.post(startPath(of), {}, 403);
    await ada.post(startPath({ ...of, version_id: unknownId }), {}, 404);
    await ada.post(startPath({ ...of, draft_id: unknownId }), {}, 404);
  });

  it('409: rejects cases over the daily limit', async () => {
    const { db } = shared.container;
    const day = db.raw(`(now() at time zone 'utc')::date`);
    await db('evaluationDays').insert({ orgId: ada.orgId, day, cases: 499 });
    const of = await anEvaluableVersion(ada, { golden_cases });
    const { body } = await ada.post(startPath(of), { run_golden: true }, 409);
    expect(problemSchema.parse(body).code).equal('evaluation_case_limit_reached');
    expect((await readVersion(ada, of)).eval_status).equal(null);
    await start(of, { golden_case_ids: ['fee'] });
  });

  it('422: rejects unknown, too many or duplicate golden cases, and wrong fields', async () => {
    const of = await anEvaluableVersion(ada, { golden_cases });
    const refuses = async (path: string, code: string, body: object) => {
      const problem = problemSchema.parse((await ada.post(startPath(of), body, 422)).body);
      expect(problem).include({ code });
      expect(problem.errors?.[0]?.path).equal(path);
    };
    await refuses('golden_case_ids', 'unknown_golden_case', { golden_case_ids: ['fee', 'nobody'] });
    const many = Array.from({ length: 21 }, (_, index) => ({ id: `${index}`, prompt: 'x' }));
    await refuses('golden_case_ids', 'validation_failed', { golden_cases: many, run_golden: true });
    await refuses('golden_cases', 'validation_failed', { golden_cases: [golden_cases[0], golden_cases[0]] });
    await refuses('run_golden', 'validation_failed', { run_golden: 'yes' });
    expect((await readVersion(ada, of)).golden_cases).deep.equal(golden_cases);
  });
});
