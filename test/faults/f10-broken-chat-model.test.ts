import { expect } from 'chai';
import type { Round } from '#src/modules/chat/chat.model.ts';
import { aPublishedAgent, ask, openChatStream } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { collect } from '#test/support/collect.ts';
import { isFullRun, measured } from '#test/support/fault-run.ts';
import { type Behaviour, type ScriptedModel, startScriptedModel } from '#test/support/scripted-model.ts';
import { type Stack, startStack } from '#test/support/stack.ts';

describe('F10: a chat with an unreliable model', () => {
  let model: ScriptedModel;
  let stack: Stack;
  let ada: Member;
  let agentId: string;

  before(async () => {
    model = await startScriptedModel();
    stack = await startStack({ OPENAI_BASE_URL: model.baseUrl }, { workers: false });
    ada = await stack.signUp('Ada');
    agentId = await aPublishedAgent(ada);
  });
  after(async () => {
    await stack.close();
    await model.close();
  });

  const question = { message: 'How is a loan repaid?', enable_rag: false };
  const piece = (content: string, finishReason: string | null = null) =>
    `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content }, finish_reason: finishReason }] })}\n\n`;
  const raw = (...parts: string[]): Behaviour => ({ kind: 'raw', body: parts.join(''), ends: true });
  const end = 'data: [DONE]\n\n';
  const megabyte = 'word '.repeat(200_000);

  /** A new chat whose first answer the model writes so. */
  async function tell(behaviour: Behaviour) {
    model.behave(() => behaviour);
    const events = await collect(await openChatStream(ada, { agent_id: agentId, ...question }));
    const rounds = stack.container.db<Round>('rounds').orderBy('startedAt', 'desc');
    const round = (await rounds.first()) ?? expect.fail('no round was stored');
    return { last: events.at(-1), lastOnes: events.filter(({ event }) => event !== 'token').length, round };
  }

  const broken: Record<string, Behaviour> = {
    'status 500': { kind: 'status', status: 500 },
    'a stream that breaks off': { kind: 'break_off', text: 'A loan is' },
    'an event that is no JSON': raw(piece('A loan is'), 'data: {"choices":[{"ind\n\n', piece(' repaid.', 'stop'), end),
    'events that are no objects': raw('data: 7\n\n', 'data: null\n\n', 'data: []\n\n', end),
    'an answer without text': raw(piece('', 'stop'), end),
    'an answer that is not finished': raw(piece('A loan is repaid.'), end),
    'no event at all': raw(),
    'an answer without an end': raw(...Array.from({ length: 5 }, () => piece(megabyte)), piece('', 'stop'), end),
    ...(isFullRun && { 'nothing more': { kind: 'raw', body: piece('A loan is'), ends: false } }),
  };
  for (const [what, behaviour] of Object.entries(broken)) {
    it(`reports one error and stores no answer if the model sends ${what}, and answers when asked again`, async () => {
      const beganAt = Date.now();
      const { last, lastOnes, round } = await tell(behaviour);
      expect(last?.event).equal('error');
      expect(last?.data).property('code').oneOf(['model_unavailable', 'model_response_invalid']);
      expect(lastOnes).equal(1);
      expect(round).include({ round: 1, status: 'error', assistantReply: null });
      if (what === 'nothing more') measured('given up after', Date.now() - beganAt, 70_000);

      model.behave(() => ({ kind: 'answer', text: 'Month by month.' }));
      await ask(ada, { chat_id: round.chatId, ...question }, 200);
      const rounds = await stack.container.db<Round>('rounds').where({ chatId: round.chatId });
      expect(rounds).length(1);
      expect(rounds[0]).include({ status: 'complete', assistantReply: 'Month by month.' });
    });
  }

  it('accepts an answer without token counts, and an answer that arrives in a single event of a megabyte', async () => {
    for (const text of ['Month by month.', megabyte]) {
      const { last, lastOnes, round } = await tell(raw(piece(text), piece('', 'stop'), end));
      expect(last).nested.include({ event: 'done', 'data.reply': text });
      expect(lastOnes).equal(1);
      expect(round).include({ status: 'complete', assistantReply: text, inputTokens: 0, completionTokens: 0 });
    }
  });
});
