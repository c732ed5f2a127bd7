import { expect } from 'chai';
import { tokenResponse } from '#src/modules/auth/auth.schema.ts';
import { aPublishedAgent, openChatStream } from '#test/support/builders.ts';
import { type ApiClient, type Member, readEvents, type StreamEvent } from '#test/support/client.ts';
import { collect } from '#test/support/collect.ts';
import { type ScriptedStack, scriptedStack, stoppedIngestion } from '#test/support/scripted-stack.ts';
import { until } from '#test/support/until.ts';

describe('an answer that is being written', () => {
  let stack: ScriptedStack;
  let ada: Member;
  let agentId: string;
  let finish: PromiseWithResolvers<void>;

  beforeEach(async () => {
    stack = await scriptedStack();
    finish = Promise.withResolvers();
    stack.model.behave(() => ({ kind: 'answer', text: 'Month by month.', until: finish.promise }));
    ada = await stack.signUp('Ada');
    agentId = await aPublishedAgent(ada);
  });
  afterEach(() => {
    finish.resolve();
    stack.model.failEmbeddings(false);
  });

  const question = () => ({ agent_id: agentId, message: 'How is a loan repaid?' });
  const anOpenStream = async () => {
    const events = await openChatStream(ada, question());
    await events.next();
    return events;
  };
  const roundOfAda = () => stack.container.db('rounds').where({ orgId: ada.orgId, round: 1 }).first();
  // Written to the database directly: another process may have made the change.
  const disable = () => stack.container.db('users').where({ id: ada.userId }).update({ disabledAt: new Date() });
  const logOut = (refreshToken: string) => ada.post('/auth/logout', { refresh_token: refreshToken }, 204);

  const expectEnded = async (events: AsyncIterable<StreamEvent>) => {
    const rest = await collect(events);
    expect(rest.map(({ event }) => event)).deep.equal(['error']);
    expect(Object(rest[0]?.data).code).to.be.oneOf(['invalid_token', 'account_disabled']);
  };

  it('ends its stream and is not stored when its user is disabled', async () => {
    const events = await anOpenStream();
    await disable();
    await expectEnded(events);
    await until('the round is over', async () => (await roundOfAda())?.status === 'error');
    expect(await roundOfAda()).include({ errorCode: 'account_disabled', assistantReply: null, leaseOwner: null });
  });

  it('fails a non-streaming request with 403 when its user is disabled', async () => {
    const refused = ada.post('/chat', question(), 403);
    await until('the round is open', roundOfAda);
    await disable();
    expect((await refused).body).property('code', 'account_disabled');
    expect(await roundOfAda()).include({ status: 'error', assistantReply: null });
  });

  it('is completed and stored when the session ends, while its stream and streams of jobs are closed', async () => {
    const { jobId } = await stoppedIngestion(stack, ada, 'parked');
    const progress = readEvents(await ada.raw(`/jobs/${jobId}/events`));
    await progress.next();
    const events = await anOpenStream();
    await logOut(ada.refreshToken);
    for (const stream of [events, progress]) await expectEnded(stream);
    finish.resolve();
    await until('the answer is stored', async () => (await roundOfAda())?.status === 'complete');
  });

  it('keeps its stream when another session of its user ends', async () => {
    const { body } = await ada.post('/auth/login', { username: ada.email, password: ada.password }, 200);
    const events = await anOpenStream();
    const other: ApiClient = ada.withToken(tokenResponse.parse(body).access_token);
    await other.get('/folders', 200);
    await logOut(tokenResponse.parse(body).refresh_token);
    await until('the other session is over', async () => (await other.raw('/folders')).status === 401);
    finish.resolve();
    expect((await collect(events)).at(-1)?.event).equal('done');
  });
});
