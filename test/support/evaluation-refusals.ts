import { expect } from 'chai';
import { problemSchema } from '#src/http/response/problem.ts';
import type { ApiClient, Member } from './client.ts';
import { signUpColleague } from './colleague.ts';
import { isForJudge, judgeWell } from './scripted-judge.ts';
import type { ScriptedStack } from './scripted-stack.ts';
import { untilJob } from './until-job.ts';

type Asked = { path: string; body: object };

const nobody = '00000000-0000-4000-8000-000000000000';

/** Of a version of the owner's: only he may have it evaluated, and only what is there. */
export async function refusesOthers(stack: ScriptedStack, owner: Member, { path, body }: Asked): Promise<void> {
  const of = body as { draft_id: string; version_id: string };
  await stack.anonymous.post(path, body, 401);
  const colleague = await signUpColleague(stack, owner);
  await colleague.post(path, body, 404);
  await owner.patch(`/agent-drafts/${of.draft_id}/scope`, { visibility: 'org_level' }, 200);
  await colleague.post(path, body, 403);
  await (await stack.signUp()).post(path, body, 404);
  await owner.post(path, { ...body, draft_id: nobody }, 404);
  await owner.post(path, { ...body, version_id: nobody }, 404);
}

/** @param body one that was not asked for before */
export async function refusesOverTheLimit(stack: ScriptedStack, owner: Member, { path, body }: Asked): Promise<void> {
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

/** A judge that gives no verdict is an error and no score; once it gives some, only those are asked for. */
export async function tellsWhatIsMissing(stack: ScriptedStack, owner: Member, { path, body }: Asked): Promise<void> {
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

/** Who does not want to wait gets the id of the job, which goes on. */
export async function tellsOfTheJob({ model }: ScriptedStack, client: ApiClient, { path, body }: Asked): Promise<void> {
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  model.behave(judgeWell(undefined, released));
  const reply = await client.post(path, body, 504, { prefer: 'wait=0' }).finally(release);
  const { code, detail } = problemSchema.parse(reply.body);
  expect(code).equal('eval_timeout');
  const [jobId = ''] = /(?:evaluate|compare)-[0-9a-f]+/.exec(detail) ?? [];
  await untilJob(client, jobId, 'succeeded');
  await client.post(path, body, 200, { prefer: 'wait=0' });
}
