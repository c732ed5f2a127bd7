import { expect } from 'chai';
import { chatMessageSchema } from '#src/modules/chat/chat.schema.ts';
import { aPublishedAgent, ask } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type ScriptedModel, startScriptedModel } from '#test/support/scripted-model.ts';
import { type Stack, startStack } from '#test/support/stack.ts';

const priced = { 'small-1': { input: 2, cached_input: 1, output: 10 } };

describe('models of a provider that tells their context window', () => {
  let model: ScriptedModel;
  let stack: Stack;
  let ada: Member;

  before(async () => {
    model = await startScriptedModel();
    model.offer([
      { id: 'small-1', kind: 'chat', context_window: 2_000 },
      { id: 'gpt-4o-mini', kind: 'chat', context_window: 128_000 },
      { id: 'unknown-1', kind: 'chat' },
    ]);
    stack = await startStack(
      { OPENAI_BASE_URL: model.baseUrl, MODEL_PRICES: JSON.stringify(priced), ECHO_WAIT_MS: '0' },
      { workers: false },
    );
    ada = await stack.signUp('Ada');
  });
  after(async () => {
    await stack.close();
    await model.close();
  });
  beforeEach(() => model.behave(() => ({ kind: 'answer', text: 'A loan is repaid month by month.' })));

  const agentOf = (chatModel: string) => aPublishedAgent(ada, { chat_model: chatModel, max_tokens: 4_000 });
  const roundOf = (chatId: string) => stack.container.db('rounds').where({ chatId }).first();

  it('422 for a message that does not fit, and stores nothing', async () => {
    const body = { agent_id: await agentOf('small-1'), message: 'loan '.repeat(2_000), enable_rag: false };
    expect((await ada.post('/chat', body, 422)).body).include({ code: 'context_too_long' });
    expect((await ada.post('/chat/stream', body, 422)).body).include({ code: 'context_too_long' });
    expect((await ada.get('/chat', 200)).body).include({ total: 0 });
    expect(model.requests).empty;
  });

  it('get a prompt that fits and leaves room for the reply', async () => {
    const agent = await agentOf('small-1');
    const message = 'loan '.repeat(500);
    const { chat_id } = await ask(ada, { agent_id: agent, message, enable_rag: false }, 201);
    for (const _ of [2, 3]) await ask(ada, { chat_id, message, enable_rag: false }, 200);
    const [request] = model.requests.slice(-1);
    expect(request?.max_tokens).within(250, 1_000);
    const said = request?.messages.filter(({ role }) => role === 'user') ?? [];
    expect(said.length, 'the oldest round is left out').equal(2);
  });

  it('422 for a message that a model of unknown window rejects as too long, and keeps the message', async () => {
    model.behave(() => ({ kind: 'status', status: 400, code: 'context_length_exceeded' }));
    const body = { agent_id: await agentOf('unknown-1'), message: 'A loan?', enable_rag: false };
    expect((await ada.post('/chat', body, 422)).body).include({ code: 'context_too_long' });
    const [round] = await stack.container.db('rounds').where({ userContent: 'A loan?' });
    expect(round).include({ status: 'error', errorCode: 'context_too_long' });
  });

  for (const [name, version, cost] of [
    ['small-1', '2025-06+settings', (100 * 2 + 20 * 1 + 7 * 10) / 1e6],
    ['gpt-4o-mini', '2025-06', (100 * 0.15 + 20 * 0.075 + 7 * 0.6) / 1e6],
    ['unknown-1', null, 0],
  ] as const) {
    it(`cost what their price table says, and the round has its version: ${name}`, async () => {
      const body = { agent_id: await agentOf(name), message: 'A loan?', enable_rag: false };
      const { chat_id } = chatMessageSchema.parse((await ada.post('/chat', body, 201)).body);
      const round = await roundOf(chat_id);
      expect(round).include({ priceVersion: version });
      expect(Number(round?.costUsd)).closeTo(cost, 1e-8);
    });
  }
});
