import { expect } from 'chai';
import { aPublishedAgent } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { collect } from '#test/support/collect.ts';
import { readEvents } from '#test/support/event-stream.ts';
import { type ScriptedModel, startScriptedModel } from '#test/support/scripted-model.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';

describe('STREAM_ON_DISCONNECT=cancel', () => {
  let model: ScriptedModel;
  let stack: Stack;
  /** Another process of the API on the same database. */
  let replica: Stack;
  let ada: Member;
  let agentId: string;

  before(async () => {
    model = await startScriptedModel();
    const settings = { OPENAI_BASE_URL: model.baseUrl, STREAM_ON_DISCONNECT: 'cancel' };
    stack = await startStack(settings, { workers: false });
    replica = await startStack(stack.settings, { workers: false });
    ada = await stack.signUp('Ada');
    agentId = await aPublishedAgent(ada);
  });
  after(async () => {
    await replica.close();
    await stack.close();
    await model.close();
  });

  const roundOf = (chatId: string) => stack.container.db('rounds').where({ chatId }).first();

  /** Lets a recorded reader count for ever instead of five seconds, so that the test does not depend on timing. */
  const keepFollowers = () =>
    stack.container.db.raw(`
      create function keep_follower() returns trigger language plpgsql as
        $$ begin new.followed_at = 'infinity'; return new; end $$;
      create trigger keep_follower before update of followed_at on rounds
        for each row when (new.followed_at is not null) execute function keep_follower();
    `);

  /** Starts an answer and reads its first event. */
  async function begin(): Promise<{ chatId: string; leave: () => void }> {
    const leaving = new AbortController();
    const response = await ada.raw('/chat/stream', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ agent_id: agentId, message: 'How is a loan repaid?' }),
      signal: leaving.signal,
    });
    const [, chatId = ''] = response.headers.get('content-location')?.split(/\/chat\/|\/stream/) ?? [];
    await readEvents(response).next();
    return { chatId, leave: () => leaving.abort() };
  }

  it('interrupts an answer whose last reader has disconnected, not one that another process reads', async () => {
    await keepFollowers();
    const finish = Promise.withResolvers<void>();
    model.behave(() => ({ kind: 'answer', text: 'Month by month.', until: finish.promise }));
    const { chatId: followed, leave: leaveFollowed } = await begin();
    const reading = collect(readEvents(await ada.at(replica.baseUrl).raw(`/chat/${followed}/stream`)));
    await until('the other reader is recorded', async () => (await roundOf(followed))?.followedAt !== null);
    leaveFollowed();
    // This reader leaves later, but its answer is interrupted first.
    const { chatId: left, leave } = await begin();
    leave();

    const ended = await until('the answer is interrupted', async () => {
      const round = await roundOf(left);
      return round?.status !== 'open' && round;
    });
    expect(ended).include({ status: 'error', errorCode: 'interrupted', assistantReply: null });
    await until('the model writes only the other answer', async () => model.openStreams() === 1);
    expect(await roundOf(followed)).include({ status: 'open' });

    finish.resolve();
    expect((await reading).map(({ event }) => event)).deep.equal(['token', 'token', 'token', 'done']);
    expect(await roundOf(followed)).include({ status: 'complete', assistantReply: 'Month by month.' });
  });

  it('does not interrupt the answer to POST /chat when the client disconnects', async () => {
    const finish = Promise.withResolvers<void>();
    model.behave(() => ({ kind: 'answer', text: 'Month by month.', until: finish.promise }));
    const leaving = new AbortController();
    const message = 'Is it repaid month by month?';
    const asked = ada.raw('/chat', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ agent_id: agentId, message }),
      signal: leaving.signal,
    });
    asked.catch(() => undefined);
    const find = () => stack.container.db('rounds').where({ userContent: message }).first();
    await until('the model is asked', async () => model.openStreams() === 1);
    leaving.abort();
    finish.resolve();
    expect(await until('it is answered', async () => ((await find())?.status === 'complete' ? find() : null))).include({
      assistantReply: 'Month by month.',
    });
  });
});
