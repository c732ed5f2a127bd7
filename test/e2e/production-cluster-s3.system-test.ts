import { expect } from 'chai';
import {
  anEvaluableVersion,
  anIngestedDocument,
  anUpload,
  ask,
  evaluate,
  freshEmail,
  loanAnchors,
  openChatStream,
  readDocument,
  replaceOriginal,
} from '#test/support/builders.ts';
import { type Member, readEvents } from '#test/support/client.ts';
import { collect } from '#test/support/collect.ts';
import { expectInvariants, uploadText } from '#test/support/fault-case.ts';
import { type ProductionCluster, startProductionCluster } from '#test/support/production-cluster.ts';
import { openBucket, type TestBucket } from '#test/support/s3.ts';
import { judgeWell } from '#test/support/scripted-judge.ts';
import { type ScriptedModel, startScriptedModel } from '#test/support/scripted-model.ts';
import { until } from '#test/support/until.ts';
import { untilJob, untilRun } from '#test/support/until-job.ts';

describe('a cluster of two API processes and three workers without a shared disk', function () {
  this.timeout(180_000);
  let bucket: TestBucket;
  let model: ScriptedModel;
  let cluster: ProductionCluster;
  before(async function () {
    bucket = await openBucket(this);
    model = await startScriptedModel();
    const models = { OPENAI_BASE_URL: model.baseUrl, ALIGNMENT_EMBEDDING_BASE_URL: model.baseUrl };
    cluster = await startProductionCluster({ ...bucket.environment, ...models }, { apis: 2, workers: 3 });
  });
  after(async () => {
    // Undefined if the suite was skipped.
    await cluster?.close();
    await model?.close();
  });

  /** The same caller before the first process and before the second, past the balancer. */
  const atBoth = (member: Pick<Member, 'at'>) => {
    const [first, second] = cluster.apis.map(({ baseUrl }) => member.at(baseUrl));
    return [first ?? expect.fail(), second ?? expect.fail()] as const;
  };

  it('stores, serves, replaces and deletes the original of a document in the bucket', async () => {
    const ada = await cluster.signUp();
    const content = 'Every byte of it.';
    const { id, embedding_job_id } = await anUpload(ada, { name: 'bytes.txt', content });
    await untilRun(ada, embedding_job_id ?? '', 'succeeded');
    const path = `/documents/${id}`;
    expect(await readDocument(ada, id)).include({ content });
    const { items } = Object((await ada.get('/documents/search?q=byte', 200)).body);
    expect(items.map((item: { id: string }) => item.id)).deep.equal([id]);
    expect((await ada.get(`${path}/file`, 200)).body).equal(content);
    const part = await ada.raw(`${path}/file`, { headers: { range: 'bytes=6-9' } });
    expect([part.status, await part.text()]).deep.equal([206, 'byte']);
    const signed = await fetch(Object((await ada.get(`${path}/download-url`, 200)).body).url);
    expect([signed.status, await signed.text()]).deep.equal([200, content]);
    expect(signed.headers.get('content-disposition')).match(/bytes\.txt/);

    const next = await replaceOriginal(ada, id, { name: 'second.txt', content: crypto.randomUUID() });
    await untilRun(ada, next.embedding_job_id ?? '', 'succeeded');
    expect((await ada.get(`${path}/file`, 200)).body).equal((await readDocument(ada, id)).content);
    const { db, blobs } = cluster.container;
    const { blobKey } = await db('documents').where({ id }).first('blobKey');
    expect(await blobs.exists(blobKey)).equal(true);
    await ada.delete(path, 204);
    await until('the original is deleted', async () => !(await blobs.exists(blobKey)));
  });

  it('serves requests by both API processes in turn', () => {
    for (const { baseUrl } of cluster.apis) expect(cluster.balancer.servedBy(baseUrl)).greaterThan(5);
  });

  it('evaluates and publishes an agent, continues its answer at the other API process, and scores the round', async () => {
    const ada = await cluster.signUp();
    await anIngestedDocument(ada, 'Loans', 'A loan is repaid month by month.');
    model.behave(judgeWell());
    const version = await anEvaluableVersion(ada, { anchor_words: loanAnchors });
    const cases = [{ input: 'How is a loan repaid?', expected: 'Month by month.' }];
    expect((await evaluate(ada, { ...version, cases })).cases).length(1);
    const { draft_id, version_id } = version;
    const { id: agent_id } = Object((await ada.post(`/agent-drafts/${draft_id}/publish`, { version_id }, 201)).body);

    model.behave(() => ({ kind: 'answer', text: 'A loan is repaid month by month, in small parts.', everyMs: 100 }));
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

  it('applies a changed role or an ended session at the other API process within five seconds', async () => {
    const ada = await cluster.signUp();
    const account = { email: freshEmail('grace'), password: 'Correct-horse-1' };
    const { user_id } = Object((await ada.post('/entity/members', account, 201)).body);
    const login = { username: account.email, password: account.password };
    const session = Object((await ada.post('/auth/login', login, 200)).body);
    const [first] = atBoth(ada);
    const [, grace] = atBoth(ada.withToken(session.access_token));

    await grace.post('/entity/teams', { name: 'Tides' }, 403);
    await first.patch(`/entity/members/${user_id}/org-admin`, { is_org_admin: true }, 200);
    const body = JSON.stringify({ name: 'Tides' });
    const post = { method: 'POST', headers: { 'content-type': 'application/json' }, body };
    await until('she is allowed', async () => (await grace.raw('/entity/teams', post)).status === 201);

    await first.post('/auth/logout', { refresh_token: session.refresh_token }, 204);
    await until('she is signed out', async () => (await grace.raw('/folders')).status === 401);
  });

  it('completes the steps that a killed worker had begun', async () => {
    const ada = await cluster.signUp();
    const uploads = await Promise.all(
      Array.from({ length: 24 }, (_, index) => uploadText(ada, `Note ${index} says what ${crypto.randomUUID()} is.`)),
    );
    await cluster.workers.shift()?.kill();
    for (const { jobId } of uploads) await untilRun(ada, jobId, 'succeeded');
    await expectInvariants(cluster);
  });
});
