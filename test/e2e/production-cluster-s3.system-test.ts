import { expect } from 'chai';
import { userSchema } from '#src/modules/members/members.schema.ts';
import {
  anEvaluableVersion,
  anIngestedDocument,
  ask,
  evaluate,
  freshEmail,
  loanAnchors,
  openChatStream,
} from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { collect } from '#test/support/collect.ts';
import { itServesTheDataroom } from '#test/support/dataroom-story.ts';
import { readEvents } from '#test/support/event-stream.ts';
import { expectInvariants, uploadText } from '#test/support/fault-case.ts';
import { type ProductionCluster, startProductionCluster } from '#test/support/production-cluster.ts';
import { openBucket, type TestBucket } from '#test/support/s3.ts';
import { judgeWell } from '#test/support/scripted-judge.ts';
import { type ScriptedModel, startScriptedModel } from '#test/support/scripted-model.ts';
import { until } from '#test/support/until.ts';
import { untilJob, untilRun } from '#test/support/until-job.ts';

describe('two processes of the API and three of workers, which share no disk', function () {
  this.timeout(180_000);
  let bucket: TestBucket;
  let model: ScriptedModel;
  let cluster: ProductionCluster;
  before(async function () {
    bucket = await openBucket(this);
    model = await startScriptedModel();
  });
  after(() => model?.close());

  itServesTheDataroom(async (settings) => {
    const models = { OPENAI_BASE_URL: model.baseUrl, ALIGNMENT_EMBEDDING_BASE_URL: model.baseUrl };
    cluster = await startProductionCluster({ ...bucket.environment, ...models, ...settings }, { apis: 2, workers: 3 });
    return cluster;
  });

  /** The same caller before the first process and before the second, past the balancer. */
  const atBoth = (member: Pick<Member, 'at'>) => {
    const [first, second] = cluster.apis.map(({ baseUrl }) => member.at(baseUrl));
    if (first === undefined || second === undefined) throw new Error('there are two');
    return [first, second] as const;
  };

  it('sends requests to both by turns', () => {
    for (const { baseUrl } of cluster.apis) expect(cluster.balancer.servedBy(baseUrl)).greaterThan(20);
  });

  it('evaluates, publishes and answers, goes on with a stream at the other process, scores and lists it', async () => {
    const ada = await cluster.signUp();
    await anIngestedDocument(ada, 'Loans', 'A loan is repaid month by month.');
    model.behave(judgeWell());
    const version = await anEvaluableVersion(ada, { anchor_words: loanAnchors });
    const cases = [{ input: 'How is a loan repaid?', expected: 'Month by month.' }];
    expect((await evaluate(ada, { ...version, cases })).cases).length(1);
    const published = await ada.post(
      `/agent-drafts/${version.draft_id}/publish`,
      { version_id: version.version_id },
      201,
    );
    const { id: agent_id } = published.body as { id: string };

    model.behave(() => ({
      kind: 'answer',
      text: 'A loan is repaid month by month, in many small parts.',
      everyMs: 100,
    }));
    const { chat_id, reply } = await ask(ada, { agent_id, message: 'How is a loan repaid?' }, 201);
    expect(reply).match(/month by month/);

    const [first, second] = atBoth(ada);
    const events = await openChatStream(first, { agent_id, chat_id, message: 'And once more?', enable_rag: false });
    const { value: begun } = await events.next();
    await events.return?.();
    const headers = { 'last-event-id': begun.id ?? '' };
    const seen = [begun, ...(await collect(readEvents(await second.raw(`/chat/${chat_id}/stream`, { headers }))))];
    expect(seen.at(-1)).deep.include({ event: 'done' });
    expect(seen.map(({ id }) => id)).deep.equal(seen.map((_, index) => `2:${index + 1}`));

    await untilJob(ada, `alignment-${chat_id}`, 'succeeded');
    const logged = Object((await ada.get(`/logs/conversations/${chat_id}`, 200)).body);
    expect(logged.round_summaries.map(({ type }: { type: string }) => type)).deep.equal(['exchange', 'exchange']);
    expect(Object((await ada.get('/logs/stats', 200)).body)).property('total_rounds', 2);
  });

  it('knows within five seconds at one process what was changed at the other: a role, and the end of a session', async () => {
    const ada = await cluster.signUp();
    const [email, password] = [freshEmail('grace'), 'Correct-horse-1'];
    const invited = await ada.post('/entity/members', { email, password, display_name: 'Grace' }, 201);
    const { user_id } = userSchema.parse(invited.body);
    const session = Object((await ada.post('/auth/login', { username: email, password }, 200)).body);
    const [first] = atBoth(ada);
    const [, grace] = atBoth(ada.withToken(session.access_token));

    await grace.post('/entity/teams', { name: 'Tides' }, 403);
    await first.patch(`/entity/members/${user_id}/org-admin`, { is_org_admin: true }, 200);
    const isAllowed = async () => (await grace.raw('/entity/teams', asPost({ name: 'Tides' }))).status === 201;
    await until('she may', isAllowed);

    await first.post('/auth/logout', { refresh_token: session.refresh_token }, 204);
    await until('she is signed out', async () => (await grace.raw('/folders')).status === 401);
  });

  it('spreads work over all workers, and does what a killed one had taken', async () => {
    const ada = await cluster.signUp();
    const uploads = await Promise.all(
      Array.from({ length: 24 }, (_, index) => uploadText(ada, `Note ${index} says what ${crypto.randomUUID()} is.`)),
    );
    const killed = cluster.workers.shift();
    if (killed === undefined) throw new Error('there are three');
    await killed.kill();
    for (const { jobId } of uploads) await untilRun(ada, jobId, 'succeeded');

    const left = cluster.workers.map(({ pid }) => String(pid));
    const workers = new Set<string>();
    const isSpread = async () => {
      const more = Array.from({ length: 12 }, () => uploadText(ada, `Another note says ${crypto.randomUUID()}`));
      for (const { jobId } of await Promise.all(more)) {
        await untilRun(ada, jobId, 'succeeded');
        for (const worker of await workersOf(jobId)) workers.add(worker);
      }
      return left.every((pid) => workers.has(pid));
    };
    await until('each of those that are left has taken a step', isSpread);
    await expectInvariants(cluster);
  });

  /** The process ids of those that took a step of it. */
  async function workersOf(workflowId: string): Promise<string[]> {
    const history = await cluster.container.temporal.client.workflow.getHandle(workflowId).fetchHistory();
    return (history.events ?? []).flatMap(({ activityTaskStartedEventAttributes: step }) => {
      return step?.identity?.split('@')[0] ?? [];
    });
  }
});

const asPost = (body: object): RequestInit => ({
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(body),
});
