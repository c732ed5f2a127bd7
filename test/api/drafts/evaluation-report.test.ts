import { expect } from 'chai';
import { problemSchema } from '#src/http/response/problem.ts';
import {
  aColleague,
  anEvaluableVersion,
  type Evaluable,
  startPath,
  twoEvaluableVersions,
} from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { judgeWell } from '#test/support/scripted-judge.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';

const unknownId = '00000000-0000-4000-8000-000000000000';
const pathOf = ({ draft_id, version_id }: Evaluable) => `/agent-drafts/${draft_id}/versions/${version_id}/eval/report`;

describe('GET /agent-drafts/{draft_id}/versions/{version_id}/eval/report', () => {
  let shared: ScriptedStack;
  let ada: Member;
  let version: Evaluable;
  before(async () => {
    shared = await scriptedStack();
    ada = await shared.signUp();
    shared.model.behave(judgeWell());
    let parent: Evaluable;
    [version, parent] = await twoEvaluableVersions(ada);
    for (const each of [parent, version]) {
      await ada.post(
        startPath(each),
        { golden_cases: [{ id: 'fee', prompt: '<b>What?</b>' }], run_golden: true },
        200,
        {
          prefer: 'wait=60',
        },
      );
    }
  });

  it('200: returns Markdown with the scores beside those of the parent', async () => {
    const { body, headers } = await ada.get(pathOf(version), 200);
    expect(headers.get('content-type')).match(/^text\/markdown/);
    expect(headers.get('content-disposition')).match(/^attachment; filename="Lena v2 evaluation\.md"/);
    expect(body)
      .match(/^# Evaluation of Lena, version 2/)
      .and.match(/Role/);
  });

  it('200: returns JSON', async () => {
    const { body } = await ada.get(`${pathOf(version)}?format=json`, 200);
    const report = typeof body === 'string' ? JSON.parse(body) : body;
    expect(report).deep.include({ agent_name: 'Lena', failed_units: [] });
    expect(report.averages.overall).deep.equal({ score: 3, parent: 3, change: 0 });
  });

  it('200: returns HTML with all foreign markup escaped', async () => {
    const { body, headers } = await ada.get(`${pathOf(version)}?format=html`, 200);
    expect(headers.get('content-type')).match(/^text\/html/);
    expect(body).include('<svg').not.include('<b>What?');
  });

  it('206: returns the requested range', async () => {
    const reply = await ada.raw(pathOf(version), { headers: { range: 'bytes=0-9' } });
    expect(reply.status).equal(206);
    expect(await reply.text()).length(10);
  });

  it('400: rejects an unknown format', async () => {
    const { body } = await ada.get(`${pathOf(version)}?format=pdf`, 400);
    expect(problemSchema.parse(body).code).equal('unsupported_report_format');
  });

  it('401 and 404: rejects anonymous callers and non-readers, unknown versions, and versions without scores', async () => {
    await shared.anonymous.get(pathOf(version), 401);
    await (await aColleague(shared, ada)).get(pathOf(version), 404);
    await ada.get(pathOf({ ...version, version_id: unknownId }), 404);
    await ada.get(pathOf({ ...version, draft_id: unknownId }), 404);
    const { body } = await ada.get(pathOf(await anEvaluableVersion(ada)), 404);
    expect(problemSchema.parse(body).code).equal('evaluation_not_found');
  });

  it('200: returns the report to readers of the draft', async () => {
    const grace = await aColleague(shared, ada);
    await ada.patch(`/agent-drafts/${version.draft_id}/scope`, { visibility: 'org_level' }, 200);
    await grace.get(pathOf(version), 200);
  });

  it('416: rejects a range after the end', async () => {
    expect((await ada.raw(pathOf(version), { headers: { range: 'bytes=9999999-' } })).status).equal(416);
  });
});
