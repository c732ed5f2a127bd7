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

  beforeEach(async () => {
    stack = await scriptedStack();
    ada = await stack.signUp('Ada');
    chatId = undefined;
  });

  /** Sends a message and waits for the scores of its round. */
  async function round(message: string = onTopic.asks, reply: string = onTopic.says) {
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
    const dataOf = (wanted: AlignmentEvent['type']) => events.find(({ type }) => type === wanted)?.data;
    return {
      state: scored.echoState as string,
      types: events.map(({ type }) => type),
      steering: dataOf('steering_applied'),
      prunes: dataOf('messages_pruned'),
      system: prompt[0]?.content,
      asked: prompt.filter(({ role }) => role === 'user').map(({ content }) => content),
    };
  }
  const unsteered = { system: persona, steering: undefined };

  it('is watched, then steered back until it is on topic again; its off-topic rounds are pruned', async () => {
    expect(await round()).include({ state: 'stable', ...unsteered });

    const second = await round(strayQuestions[0]);
    expect(second).include({ state: 'watch', ...unsteered });
    expect(second.types).include.members(['topic_off', 'watch_entered']);

    const third = await round(strayQuestions[1]);
    expect(third).deep.include({ state: 'watch', steering: { level: 'soft' } });
    expect(third.system).match(/^You help .*\n\nScope: loan, mortgage, interest rate, /);

    const fourth = await round(strayQuestions[2], strayReply);
    expect(fourth).deep.include({ state: 'drift_user', steering: { level: 'soft' } });
    expect(fourth.types).include('drift_started');
    expect(fourth.prunes).deep.equal({ message_ids: ['2:user', '2:assistant', '3:user', '3:assistant'] });

    const fifth = await round();
    expect(fifth).deep.include({ state: 'drift_recovering', steering: { level: 'strong' } });
    expect(fifth.system?.split(persona)).length(3);
    expect(fifth.system).include('The last 3 user messages were out of scope');
    expect(fifth.asked).deep.equal([onTopic.asks, strayQuestions[2], onTopic.asks]);
    expect(fifth.types).include('recovering');

    const sixth = await round();
    expect(sixth).deep.include({ state: 'stable', steering: { level: 'soft' } });
    expect(sixth.asked).not.include(strayQuestions[0]);
    expect(sixth.types).include('drift_resolved');

    const seventh = await round();
    expect(seventh).include({ state: 'stable', ...unsteered });
    expect(seventh.asked).include(strayQuestions[2]).and.not.include(strayQuestions[1]);

    const { messages } = Object((await ada.get(`/chat/${chatId}`, 200)).body);
    const { turns } = Object((await ada.get(`/chat/${chatId}/export?format=json`, 200)).body);
    const pruned = [strayQuestions[0], onTopic.says, strayQuestions[1], onTopic.says];
    for (const kept of [messages, turns] as { content: string; pruned: boolean }[][]) {
      expect(kept).length(14);
      expect(kept.filter((each) => each.pruned).map(({ content }) => content)).deep.equal(pruned);
    }
  });
});
