import { expect } from 'chai';
import { aPublishedAgent, ask } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type ScriptedModel, startScriptedModel } from '#test/support/scripted-model.ts';
import { type Stack, startStack } from '#test/support/stack.ts';

describe('POST /chat', () => {
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
    const prices = '{ "small-1": { "input": 2, "cached_input": 1, "output": 10 } }';
    const settings = { OPENAI_BASE_URL: model.baseUrl, MODEL_PRICES: prices, ECHO_WAIT_MS: '0' };
    stack = await startStack(settings, { workers: false });
    ada = await stack.signUp('Ada');
  });
  after(async () => {
    await stack.close();
    await model.close();
  });
  beforeEach(() => model.behave(() => ({ kind: 'answer', text: 'A loan is repaid month by month.' })));

  /** A question to a new agent with this model. */
  const questionTo = async (chat_model: string, message = 'A loan?') => {
    return { agent_id: await aPublishedAgent(ada, { chat_model, max_tokens: 4_000 }), message, enable_rag: false };
  };

  it('answers 422 to a message that does not fit the context window of the model, and stores nothing', async () => {
    const body = await questionTo('small-1', 'loan '.repeat(2_000));
    for (const path of ['/chat', '/chat/stream']) {
      expect((await ada.post(path, body, 422)).body).include({ code: 'context_too_long' });
    }
    expect((await ada.get('/chat', 200)).body).include({ total: 0 });
    expect(model.requests).deep.equal([]);
  });

  it('answers 422 to a message that a model of unknown context window rejects as too long, and stores it', async () => {
    model.behave(() => ({ kind: 'status', status: 400, code: 'context_length_exceeded' }));
    const refused = await ada.post('/chat', await questionTo('unknown-1'), 422);
    expect(refused.body).include({ code: 'context_too_long' });
    const [round] = await stack.container.db('rounds').where({ userContent: 'A loan?' });
    expect(round).include({ status: 'error', errorCode: 'context_too_long' });
  });

  it('records the cost by the price table of the model, and the version of the table', async () => {
    for (const [name, priceVersion, cost] of [
      ['small-1', '2025-06+settings', (100 * 2 + 20 * 1 + 7 * 10) / 1e6],
      ['gpt-4o-mini', '2025-06', (100 * 0.15 + 20 * 0.075 + 7 * 0.6) / 1e6],
      ['unknown-1', null, 0],
    ] as const) {
      const { chat_id } = await ask(ada, await questionTo(name), 201);
      const round = await stack.container.db('rounds').where({ chatId: chat_id }).first();
      expect(round, name).include({ priceVersion });
      expect(Number(round?.costUsd)).closeTo(cost, 1e-8);
    }
  });
});
