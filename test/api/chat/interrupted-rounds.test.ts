import { expect } from 'chai';
import { aPublishedAgent, ask, openChatStream } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { collect } from '#test/support/collect.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';
import { startWorkers } from '#workers/run.ts';

describe('a chat round', () => {
  const message = 'How is a loan repaid?';
  let scripted: ScriptedStack;
  let finish = Promise.withResolvers<void>();

  beforeEach(async () => {
    scripted = await scriptedStack();
    finish = Promise.withResolvers();
    scripted.model.behave(() => ({ kind: 'answer', text: 'Month by month.' }));
  });
  const hold = () => scripted.model.behave(() => ({ kind: 'answer', text: 'Month by month.', until: finish.promise }));
  const untilFailed = (member: Member, chatId: string) =>
    until('the round is ended', async () => {
      const { body } = await member.get(`/logs/conversations/${chatId}`, 200);
      return Object(body).round_summaries[0].type === 'error';
    });
  const newestChat = async (member: Member) => Object((await member.get('/chat?limit=1', 200)).body).items[0];
  const lastEvent = async (events: AsyncIterable<{ event: string | undefined; data: unknown }>) =>
    (await collect(events)).at(-1);

  /** Runs a story in a stack of its own, without workers, with a user and an agent. */
  async function alone(
    settings: Record<string, string>,
    tell: (stack: Stack, ada: Member, agentId: string) => Promise<void>,
  ): Promise<void> {
    const own = { OPENAI_BASE_URL: scripted.model.baseUrl, ...settings };
    const stack = await startStack(own, { workers: false });
    try {
      const ada = await stack.signUp('Ada');
      await tell(stack, ada, await aPublishedAgent(ada));
    } finally {
      await stack.close();
    }
  }

  it('that a restart of the API interrupts ends its stream with an error, and can be answered again', () =>
    alone({}, async (stack, ada, agent_id) => {
      hold();
      const events = await openChatStream(ada, { agent_id, message });
      await events.next();
      await stack.container.chat.drain(0);
      expect(await lastEvent(events)).include({ event: 'error' });
      const { id } = await newestChat(ada);
      await untilFailed(ada, id);
      expect((await ada.get(`/chat/${id}/export`, 200)).body).include('*No answer (interrupted).*');
      finish.resolve();
    }));

  it('that ends within the grace time of a restart is completed, while new messages get 503', () =>
    alone({}, async (stack, ada, agent_id) => {
      hold();
      const events = await openChatStream(ada, { agent_id, message });
      await events.next();
      const drained = stack.container.chat.drain(60_000);
      const refuse = async () => {
        const refused = await ada.post('/chat', { agent_id, message: 'Is it too late?' }, 503);
        expect(refused.body).include({ code: 'interrupted', detail: 'server restarting' });
        expect(Number(refused.headers.get('retry-after'))).above(0);
      };
      await refuse();
      finish.resolve();
      expect(await lastEvent(events)).include({ event: 'done' });
      await drained;
      await refuse();
      expect(await newestChat(ada)).include({ round: 1 });
    }));

  it('returns its stored answer although the database fails before the response is sent', () =>
    alone({ ECHO_WAIT_MS: '10000' }, async (stack, ada, agent_id) => {
      const answer = ask(ada, { agent_id, message }, 201);
      // The response waits for the scores, which no worker writes.
      await until('the answer is stored', async () => (await newestChat(ada))?.completion_tokens > 0);
      await stack.container.db.raw('alter table rounds rename to rounds_out_of_reach');
      expect(await answer).deep.include({ reply: 'Month by month.', citations: [], title: message });
    }));

  it('is answered while Temporal is down, with its scoring pending; workers end abandoned rounds once they start', () =>
    alone({ TEMPORAL_ADDRESS: '127.0.0.1:1', TEMPORAL_CALL_TIMEOUT_MS: '2000' }, async (stack, ada, agent_id) => {
      scripted.model.behave(() => ({ kind: 'answer', text: 'Month by month [7].' }));
      const { chat_id, echo } = await ask(ada, { agent_id, message }, 201);
      expect(echo).include({ state: 'stable', ewma: 100, alignment_score: 1, round: 0, scoring_pending: true });
      // Events of the answer itself are sent before the round is scored.
      expect(echo.events.map(({ type, round }) => [type, round])).deep.equal([['citation_dropped', 1]]);
      expect((await ada.get(`/chat/${chat_id}`, 200)).body).deep.include({
        echo_scoring_pending: true,
        echo: { ...echo, events: [] },
      });

      await stack.container.db('rounds').update({ status: 'open', leaseExpiresAt: new Date() });
      const workers = startWorkers(stack.container);
      await untilFailed(ada, chat_id);
      await workers.shutdown();
    }));
});
