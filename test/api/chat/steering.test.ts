import { expect } from 'chai';
import type { AlignmentEvent } from '#src/domain/alignment/events.ts';
import { aPublishedAgent, ask } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';
import { until } from '#test/support/until.ts';

const persona = 'You help the customers of a bank with their loans.';
const onTopic = {
  asks: 'What is the interest rate and the monthly payment of a mortgage loan at the bank?',
  says: 'The interest rate of the mortgage loan sets the monthly payment and the repayment of the credit.',
};
const strayQuestions = [
  'Tell me about penguins and their eggs in Antarctica',
  'Which football team won the world cup in Brazil?',
  'What is the best recipe for tomato soup with basil?',
] as const;
const strayReply = 'Penguins are birds of the southern seas that eat fish.';

describe('a chat that drifts off its topic', () => {
  let stack: ScriptedStack;
  let ada: Member;
  let chatId: string | undefined;

  before(async () => {
    stack = await scriptedStack();
    stack.model.failEmbeddings(false);
    ada = await stack.signUp('Ada');
  });

  /** Sends a message and waits for the scores of its round. */
  async function round(message: string, reply: string) {
    stack.model.behave(() => ({ kind: 'answer', text: reply }));
    const chat = chatId === undefined ? { agent_id: await aPublishedAgent(ada) } : { chat_id: chatId };
    const answer = await ask(ada, { ...chat, message, enable_rag: false }, chatId === undefined ? 201 : 200);
    chatId = answer.chat_id;
    const prompt = stack.model.requests[0]?.messages ?? [];
    const scored = await until('the round is scored', async () => {
      const [newest] = await stack.container.db('rounds').where({ chatId }).orderBy('round', 'desc').limit(1);
      return newest?.scoredAt ? newest : null;
    });
    const events: AlignmentEvent[] = [...scored.answerEvents, ...scored.events];
    return {
      state: scored.echoState as string,
      types: events.map(({ type }) => type),
      steering: events.find(({ type }) => type === 'steering_applied')?.data,
      prunes: events.find(({ type }) => type === 'messages_pruned')?.data,
      overRefusal: events.find(({ type }) => type === 'over_refusal')?.data,
      system: prompt[0]?.content,
      asked: prompt.filter(({ role }) => role === 'user').map(({ content }) => content),
      lastButOne: prompt.at(-2),
    };
  }

  it('is watched, steered back and left alone again, and the off-topic rounds are pruned', async () => {
    chatId = undefined;
    const first = await round(onTopic.asks, onTopic.says);
    expect(first).include({ state: 'stable', system: persona, steering: undefined });

    const second = await round(strayQuestions[0], onTopic.says);
    expect(second).include({ state: 'watch', system: persona, steering: undefined });
    expect(second.types).include.members(['topic_off', 'watch_entered']);

    const third = await round(strayQuestions[1], onTopic.says);
    expect(third.state).equal('watch');
    expect(third.system).match(/^You help .*\n\nScope: loan, mortgage, interest rate, /);
    expect(third.steering).deep.equal({ level: 'soft' });

    const fourth = await round(strayQuestions[2], strayReply);
    expect(fourth.state).equal('drift_user');
    expect(fourth.steering).deep.equal({ level: 'soft' });
    expect(fourth.types).include('drift_started');
    expect(fourth.prunes).deep.equal({ message_ids: ['2:user', '2:assistant', '3:user', '3:assistant'] });

    const fifth = await round(onTopic.asks, onTopic.says);
    expect(fifth.state).equal('drift_recovering');
    expect(fifth.steering).deep.equal({ level: 'strong' });
    expect(fifth.system?.split(persona)).length(3);
    expect(fifth.system).include('The last 3 user messages were out of scope');
    expect(fifth.asked).deep.equal([onTopic.asks, strayQuestions[2], onTopic.asks]);
    expect(fifth.types).include('recovering');

    const sixth = await round(onTopic.asks, onTopic.says);
    expect(sixth.state).equal('stable');
    expect(sixth.steering).deep.equal({ level: 'soft' });
    expect(sixth.asked).not.include(strayQuestions[0]);
    expect(sixth.types).include('drift_resolved');

    const seventh = await round(onTopic.asks, onTopic.says);
    expect(seventh).include({ state: 'stable', system: persona, steering: undefined });
    expect(seventh.asked).include(strayQuestions[2]).and.not.include(strayQuestions[1]);

    type Message = { content: string; pruned: boolean };
    const { messages } = (await ada.get(`/chat/${chatId}`, 200)).body as { messages: Message[] };
    const { turns } = (await ada.get(`/chat/${chatId}/export?format=json`, 200)).body as { turns: Message[] };
    for (const kept of [messages, turns]) {
      expect(kept).length(14);
      expect(kept.filter(({ pruned }) => pruned).map(({ content }) => content)).deep.equal([
        strayQuestions[0],
        onTopic.says,
        strayQuestions[1],
        onTopic.says,
      ]);
    }
  });

  it('gets the persona again after the history if the agent drifts', async () => {
    chatId = undefined;
    await round(onTopic.asks, strayReply);
    const drifted = await round(onTopic.asks, strayReply);
    expect(drifted.state).equal('drift_agent');
    expect(drifted.prunes).deep.equal({ message_ids: ['1:user', '1:assistant', '2:user', '2:assistant'] });

    const steered = await round(onTopic.asks, onTopic.says);
    expect(steered.steering).deep.equal({ level: 'persona' });
    expect(steered.system).equal(persona);
    expect(steered.lastButOne).deep.equal({ role: 'system', content: persona });
    expect(steered.asked).deep.equal([onTopic.asks]);
  });

  it('is not steered for a refusal, but gets a note after two in a row', async () => {
    chatId = undefined;
    const refusal = 'I am sorry, but I cannot help with that.';
    const first = await round(onTopic.asks, refusal);
    expect(first).include({ state: 'refusal', overRefusal: undefined });
    const second = await round(onTopic.asks, refusal);
    expect(second).include({ state: 'refusal', system: persona });
    expect(second.overRefusal).deep.equal({ count: 2 });

    const third = await round(onTopic.asks, onTopic.says);
    expect(third.system).match(/^You help .*\n\nYou declined the last requests/);
    expect(third).include({ state: 'stable', steering: undefined });
    expect(third.asked).length(3);
  });
});
