import { expect } from 'chai';
import { problemSchema } from '#src/http/response/problem.ts';
import { aColleague } from './builders.ts';
import type { ApiClient, Member } from './client.ts';
import { isForJudge, judgeWell } from './scripted-judge.ts';
import type { ScriptedStack } from './scripted-stack.ts';
import { untilJob } from './until-job.ts';

type TestRequest = { path: string; body: object };

const unknownId = '00000000-0000-4000-8000-000000000000';

/** Only the owner of a draft may evaluate its versions; unknown drafts and versions give 404. */
export async function rejectsOtherCallers(
  stack: ScriptedStack,
  owner: Member,
  { path, body }: TestRequest,
): Promise<void> {
  const of = body as { draft_id: string; version_id: string };
  await stack.anonymous.post(path, body, 401);
  const colleague = await aColleague(stack, owner);
  await colleague.post(path, body, 404);
  await owner.patch(`/agent-drafts/${of.draft_id}/scope`, { visibility: 'org_level' }, 200);
  await colleague.post(path, body, 403);
  await (await stack.signUp()).post(path, body, 404);
  await owner.post(path, { ...body, draft_id: unknownId }, 404);
  await owner.post(path, { ...body, version_id: unknownId }, 404);
}

/** @param body a request without stored results */
export async function rejectsOverDailyLimit(
  stack: ScriptedStack,
  owner: Member,
  { path, body }: TestRequest,
): Promise<void> {
  const { db } = stack.container;
  const today = db.raw(`(now() at time zone 'utc')::date`);
  await db('evaluationDays')
    .insert({ orgId: owner.orgId, day: today, cases: 500 })
    .onConflict(['orgId', 'day'])
    .merge();
  const reply = await owner.post(path, body, 409);
  expect(problemSchema.parse(reply.body).code).equal('evaluation_case_limit_reached');
  expect(stack.model.requests).deep.equal([]);
}

/** An unusable answer of the judge gives 502 and no score; the next request asks only for the missing verdicts. */
export async function namesMissingVerdicts(
  stack: ScriptedStack,
  owner: Member,
  { path, body }: TestRequest,
): Promise<void> {
  const { model } = stack;
  model.behave((request) => {
    const behaviour = judgeWell()(request);
    return isForJudge(request) ? { kind: 'answer', text: '{"winner":"version"}' } : behaviour;
  });
  const problem = problemSchema.parse((await owner.post(path, body, 502)).body);
  expect(problem.code).equal('eval_incomplete');
  expect(problem.detail).include('judge_response_invalid');
  model.behave(judgeWell());
  await owner.post(path, body, 200);
  const again = model.requests.filter((request) => !isForJudge(request)).length;
  expect(again).equal(0);
}

/** With `wait=0` the client gets the id of the job, which continues. */
export async function namesJobOnTimeout(
  { model }: ScriptedStack,
  client: ApiClient,
  { path, body }: TestRequest,
): Promise<void> {
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  model.behave(judgeWell(undefined, released));
  const reply = await client.post(path, body, 504, { prefer: 'wait=0' }).finally(release);
  const { code, detail } = problemSchema.parse(reply.body);
  expect(code).equal('eval_timeout');
  const [jobId = ''] = /(?:evaluate|compare)-[0-9a-f]+/.exec(detail) ?? [];
  await untilJob(client, jobId, 'succeeded');
  await client.post(path, body, 200, { prefer: 'wait=0' });
}
