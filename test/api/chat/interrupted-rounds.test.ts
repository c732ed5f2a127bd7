import { expect } from 'chai';
import { aPublishedAgent, ask, openChatStream } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { collect } from '#test/support/collect.ts';
import { type ScriptedModel, startScriptedModel } from '#test/support/scripted-model.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';
import { startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';
import { startWorkers } from '#workers/run.ts';

describe('an interrupted round', () => {
  const lastEvent = async (events: AsyncIterable<{ event: string | undefined; data: unknown }>) =>
    (await collect(events)).at(-1);

  describe('of a process that died', () => {
    let stack: ScriptedStack;
    let ada: Member;
    let chatId: string;

    before(async () => {
      stack = await scriptedStack();
      stack.model.behave(() => ({ kind: 'answer', text: 'A loan is repaid month by month.' }));
      ada = await stack.signUp('Ada');
      const agentId = await aPublishedAgent(ada);
      chatId = (await ask(ada, { agent_id: agentId, message: 'How is a loan repaid?' }, 201)).chat_id;
    });

    it('is ended by the sweeper, and keeps its message', async () => {
      const round = { chatId, round: 2 };
      await stack.container.db('rounds').insert({
        ...round,
        orgId: ada.orgId,
        status: 'open',
        userContent: 'Who gives the loan?',
        model: 'extractive-1',
        leaseOwner: 'a process that died',
        leaseExpiresAt: new Date(),
      });
      const ended = await until('the round is ended', () =>
        stack.container
          .db('rounds')
          .where({ ...round, status: 'error' })
          .first(),
      );
      expect(ended).include({ errorCode: 'interrupted', userContent: 'Who gives the loan?', assistantReply: null });
      await ask(ada, { chat_id: chatId, message: 'Who gives the loan?' }, 200);
    });

    it('cannot be completed after another process has ended it', async () => {
      const finish = Promise.withResolvers<void>();
      stack.model.behave(() => ({ kind: 'answer', text: 'Too late now.', until: finish.promise }));
      const events = await openChatStream(ada, { chat_id: chatId, message: 'Are you sure?' });
      await events.next();
      const rounds = stack.container.db('rounds').where({ chatId, round: 3 });
      // The writing process renews the lease until another process has ended the round.
      await until('the round is ended', async () => {
        await rounds
          .clone()
          .where({ status: 'open' })
          .update({ leaseExpiresAt: new Date(0) });
        return rounds.clone().where({ errorCode: 'interrupted' }).first();
      });
      finish.resolve();
      expect(await lastEvent(events)).include({ event: 'error' });
      const row = await stack.container.db('rounds').where({ chatId, round: 3 }).first();
      expect(row).include({ status: 'error', assistantReply: null });
    });
  });

  describe('in a restart', () => {
    let model: ScriptedModel;

    before(async () => {
      model = await startScriptedModel();
    });
    after(() => model.close());

    it('ends its stream with an error, and can be answered again', async () => {
      const stack = await startStack({ OPENAI_BASE_URL: model.baseUrl }, { workers: false });
      const ada = await stack.signUp('Ada');
      const agentId = await aPublishedAgent(ada);
      const finish = Promise.withResolvers<void>();
      model.behave(() => ({ kind: 'answer', text: 'Not to be finished.', until: finish.promise }));
      const events = await openChatStream(ada, { agent_id: agentId, message: 'How is a loan repaid?' });
      await events.next();
      await stack.container.chat.drain(0);
      expect(await lastEvent(events)).deep.include({ event: 'error' });
      const row = await stack.container.db('rounds').where({ orgId: ada.orgId }).first();
      expect(row).include({ status: 'error', errorCode: 'interrupted', assistantReply: null });
      finish.resolve();
      await stack.close();
    });

    it('is avoided if the answer ends within the grace time, while new messages are refused with 503', async () => {
      const stack = await startStack({ OPENAI_BASE_URL: model.baseUrl }, { workers: false });
      const ada = await stack.signUp('Ada');
      const agentId = await aPublishedAgent(ada);
      const finish = Promise.withResolvers<void>();
      model.behave(() => ({ kind: 'answer', text: 'Month by month.', until: finish.promise }));
      const events = await openChatStream(ada, { agent_id: agentId, message: 'How is a loan repaid?' });
      await events.next();

      const drained = stack.container.chat.drain(60_000);
      const refuse = async () => {
        const refused = await ada.post('/chat', { agent_id: agentId, message: 'Is it too late?' }, 503);
        expect(refused.body).include({ code: 'interrupted', detail: 'server restarting' });
        expect(Number(refused.headers.get('retry-after'))).above(0);
      };
      await refuse();
      finish.resolve();
      expect(await lastEvent(events)).include({ event: 'done' });
      await drained;
      await refuse();
      expect(await stack.container.db('rounds').where({ orgId: ada.orgId })).length(1);
      await stack.close();
    });
  });

  it('does not result from a database failure after the answer is stored', async () => {
    const model = await startScriptedModel();
    const settings = { OPENAI_BASE_URL: model.baseUrl, ECHO_WAIT_MS: '10000' };
    const stack = await startStack(settings, { workers: false });
    const { db } = stack.container;
    const ada = await stack.signUp('Ada');
    const agentId = await aPublishedAgent(ada);
    model.behave(() => ({ kind: 'answer', text: 'Month by month.' }));
    const answer = ask(ada, { agent_id: agentId, message: 'How is a loan repaid?' }, 201);
    // The response waits for the scores, which no worker writes.
    await until('the answer is stored', () => db('rounds').where({ orgId: ada.orgId, status: 'complete' }).first());
    await db.raw('alter table rounds rename to rounds_out_of_reach');
    const outcome = await answer.catch((error: unknown) => error);
    await stack.close();
    await model.close();
    expect(outcome).deep.include({ reply: 'Month by month.', citations: [], title: 'How is a loan repaid?' });
  });

  it('does not result from an outage of Temporal: the answer is sent, and scored later', async () => {
    const model = await startScriptedModel();
    const stack = await startStack(
      { OPENAI_BASE_URL: model.baseUrl, TEMPORAL_ADDRESS: '127.0.0.1:1', TEMPORAL_CALL_TIMEOUT_MS: '2000' },
      { workers: false },
    );
    const ada = await stack.signUp('Ada');
    const agentId = await aPublishedAgent(ada);
    model.behave(() => ({ kind: 'answer', text: 'Month by month [7].' }));
    const { chat_id, echo } = await ask(ada, { agent_id: agentId, message: 'How is a loan repaid?' }, 201);
    expect(echo).include({ state: 'stable', ewma: 100, alignment_score: 1, round: 0 });
    // Events of the answer itself are sent before the round is scored.
    expect(echo.events.map(({ type, round }) => ({ type, round }))).deep.equal([
      { type: 'citation_dropped', round: 1 },
    ]);
    expect((await ada.get(`/chat/${chat_id}`, 200)).body).include({ echo_scoring_pending: true });

    // Workers that start during the outage end the rounds of processes that died.
    const { db } = stack.container;
    await db('rounds').where({ chatId: chat_id }).update({ status: 'open', leaseExpiresAt: new Date() });
    const workers = startWorkers(stack.container);
    await until('the round is ended', () => db('rounds').where({ chatId: chat_id, errorCode: 'interrupted' }).first());
    await workers.shutdown();
    await stack.close();
    await model.close();
  });
});
