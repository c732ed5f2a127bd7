import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import { alignmentWorkflowId } from '#src/contracts/workflow-ids.ts';
import { problemSchema } from '#src/http/response/problem.ts';
import {
  aColleague,
  anIngestedDocument,
  aPublishedAgent,
  ask,
  aTeam,
  openChatStream,
  rootOf,
  streamAnswer,
} from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { collect } from '#test/support/collect.ts';
import { type ScriptedModel, startScriptedModel } from '#test/support/scripted-model.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';
import { untilJob } from '#test/support/until-job.ts';

describe('a message to an agent', () => {
  let stack: ScriptedStack;
  let ada: Member;
  let agentId: string;

  before(async () => {
    stack = await scriptedStack();
    ada = await stack.signUp('Ada');
    agentId = await aPublishedAgent(ada);
  });
  beforeEach(() => stack.model.behave(() => ({ kind: 'answer', text: 'A loan is repaid month by month.' })));

  const answer = (text: string) => stack.model.behave(() => ({ kind: 'answer', text }));
  const send = (body: object = {}, member = ada) =>
    ask(member, { agent_id: agentId, message: 'What is a mortgage loan?', ...body }, 201);
  const newChat = async () => (await send()).chat_id;
  const contentsOf = async (chatId: string): Promise<string[]> => {
    const { messages } = Object((await ada.get(`/chat/${chatId}`, 200)).body);
    return messages.map(({ content }: { content: string }) => content);
  };
  const newestChat = async (member = ada) => Object((await member.get('/chat?limit=1', 200)).body).items[0];

  describe('that begins a chat', () => {
    it('is answered with the alignment and the scoring job of its round, and gives the chat its title', async () => {
      const reply = await send({ message: `How do I   repay a loan? ${'x'.repeat(80)}` });
      expect(reply).include({ reply: 'A loan is repaid month by month.', model: 'extractive-1' });
      expect(reply.title).match(/^(How do I repay a loan\? x{37}|A scripted title)$/);
      expect(reply.postprocess_job_id).equal(`${alignmentWorkflowId(reply.chat_id)}.1`);
      const { chat_id, echo } = await send({ message: 'What is the interest rate of a loan?' });
      expect(echo).include({ state: 'stable', round: 1, scoring_pending: false });
      expect((await ada.get(`/chat/${chat_id}`, 200)).body).deep.include({ echo });
      expect(echo.alignment_score).above(0.8);
      await untilJob(ada, reply.postprocess_job_id, 'succeeded');
      await until('the chat has the title of the model', async () => {
        const { title } = Object((await ada.get(`/chat/${reply.chat_id}`, 200)).body);
        return title === 'A scripted title';
      });
    });

    it('is answered from all documents that the user may read, or only from those that are chosen', async () => {
      const [grace, eve] = [await aColleague(stack, ada), await stack.signUp('Eve')];
      const agent_id = await aPublishedAgent(grace);
      const team = await aTeam(ada, [grace]);
      const membership = `/entity/teams/${team}/members/${grace.userId}`;
      await anIngestedDocument(grace, 'Loan terms', 'The loan fee is one percent.');
      const inTeam = { target_folder_id: await rootOf(grace, 'team_root') };
      const says = 'The loan fee is payable in the house of the bank.';
      const rules = await anIngestedDocument(ada, 'House rules', says, inTeam);
      for (const other of [ada, eve]) await anIngestedDocument(other, 'Canary', 'The loan fee is a canary.');
      const documentsInPrompt = async (settings: object): Promise<string[]> => {
        answer('It is one percent.');
        await send({ agent_id, message: 'What is the loan fee?', ...settings }, grace);
        const prompt = stack.model.requests[0]?.messages.map(({ content }) => content).join('\n') ?? '';
        expect(prompt).not.match(/canary/i);
        const names = prompt.matchAll(/<<[a-z0-9]+ \d+ \| ([^|]+) \| p\. \d+>>/g);
        return Array.from(names, ([, name = '']) => name).sort();
      };
      expect(await documentsInPrompt({ include_document_ids: [] })).deep.equal(['House rules', 'Loan terms']);
      expect(await documentsInPrompt({ include_document_ids: [rules.toUpperCase()] })).deep.equal(['House rules']);
      expect(await documentsInPrompt({ exclude_document_ids: [rules] })).deep.equal(['Loan terms']);
      await ada.delete(membership, 204);
      expect(await documentsInPrompt({}), 'for a user who left the team').deep.equal(['Loan terms']);
      await ada.put(membership, {}, 200);
      expect(await documentsInPrompt({})).deep.equal(['House rules', 'Loan terms']);
      await ada.delete(`/entity/teams/${team}`, 204);
      expect(await documentsInPrompt({}), 'of a disabled team').deep.equal(['Loan terms']);
    });

    it('is stored unchanged even if it is long or has unusual characters', async () => {
      for (const message of [
        'A\u0007 loan\u001b[31m? \r\n\u0085',
        'A \u202eloan\u202c \u2066?\u2069\u200b\u2060\ufeff',
        '😀'.repeat(100_000),
        `A loan${'\u0301'.repeat(5_000)}?`,
      ]) {
        const { chat_id } = await send({ message });
        expect((await contentsOf(chat_id))[0] === message).equal(true);
        await ada.get(`/chat/${chat_id}/export`, 200);
      }
    });
  });

  it('is answered in the same round if its answer failed and it is sent again; a different message opens the next round', async () => {
    const chat_id = await newChat();
    const message = 'Who gives the loan?';
    stack.model.behave(() => ({ kind: 'break_off', text: 'The ba' }));
    await ada.post('/chat', { chat_id, message }, 503);
    expect(await contentsOf(chat_id)).length(3);
    answer('The bank does.');
    const again = await ask(ada, { chat_id, message }, 200);
    expect(again.postprocess_job_id).match(/\.2$/);
    expect((await contentsOf(chat_id)).at(-1)).equal('The bank does.');

    stack.model.behave(() => ({ kind: 'status', status: 429, retryAfterSeconds: 7 }));
    const refused = await ada.post('/chat', { chat_id, message: 'And then?' }, 503);
    expect(refused.headers.get('retry-after')).equal('7');
    answer('The rate is low.');
    const next = await ask(ada, { chat_id, message: 'What is the rate?' }, 200);
    expect(next.postprocess_job_id).match(/\.4$/);
    expect(next.echo.round).equal(4);
  });

  describe('is refused by POST /chat and POST /chat/stream with', () => {
    async function refused(body: object, status: number, code: string, field?: string, member = ada): Promise<void> {
      // `/chat/stream` answers a refusal with a problem, not with a stream.
      for (const path of ['/chat', '/chat/stream']) {
        const problem = problemSchema.parse((await member.post(path, { message: 'A loan?', ...body }, status)).body);
        expect(problem.code, path).equal(code);
        if (field !== undefined) expect(problem.errors?.map((error) => error.path)).include(field);
      }
    }

    it('403 in a chat that the user may only read, and 404 in a hidden chat or for a hidden agent', async () => {
      const { chat_id } = await send({ visibility: 'org_level' });
      await refused({ chat_id }, 403, 'forbidden', undefined, await aColleague(stack, ada));
      const eve = await stack.signUp('Eve');
      await refused({ chat_id }, 404, 'chat_not_found', undefined, eve);
      await refused({ agent_id: agentId }, 404, 'agent_not_found', undefined, eve);
      const grace = await aColleague(stack, ada);
      const team = await aTeam(ada, [grace]);
      const agent_id = await aPublishedAgent(ada, { visibility: 'team_level', team_ids: [team] });
      const { chat_id: begun } = await send({ agent_id }, grace);
      await ada.delete(`/entity/teams/${team}/members/${grace.userId}`, 204);
      await refused({ chat_id: begun }, 404, 'agent_not_found', undefined, grace);
    });

    it('409 while the previous answer is being written', async () => {
      const chat_id = await newChat();
      const finish = Promise.withResolvers<void>();
      stack.model.behave(() => ({ kind: 'answer', text: 'Slowly but surely.', until: finish.promise }));
      const events = await openChatStream(ada, { chat_id, message: 'A slow loan?' });
      await events.next();
      await refused({ chat_id }, 409, 'round_in_progress');
      finish.resolve();
      await collect(events);
    });

    it('413 for a body of more than a megabyte', () =>
      refused({ agent_id: agentId, message: 'x'.repeat(1024 ** 2) }, 413, 'payload_too_large'));

    it('422 or 404 for invalid settings and for documents or teams of others, and starts no chat', async () => {
      const own = await stack.signUp('Eve');
      const { agent_id, chat_id } = { agent_id: await aPublishedAgent(own), chat_id: await newChat() };
      const unknown = Array.from({ length: 1_000 }, () => uuidv7());
      for (const [body, field] of [
        [{}, 'agent_id'],
        [{ agent_id, include_document_ids: [], exclude_document_ids: [] }, 'exclude_document_ids'],
        [{ agent_id, include_document_ids: unknown }, 'include_document_ids.0'],
        [{ agent_id, visibility: 'team_level' }, 'team_ids'],
      ] as const) {
        await refused(body, 422, 'validation_failed', field, own);
      }
      for (const id of [await aTeam(ada), uuidv7()]) {
        await refused({ agent_id, visibility: 'team_level', team_ids: [id] }, 404, 'team_not_found', undefined, own);
      }
      expect((await own.get('/chat', 200)).body).include({ total: 0 });
      for (const [body, field] of [
        [{ chat_id, visibility: 'personal' }, 'visibility'],
        [{ chat_id, team_ids: [] }, 'team_ids'],
        [{ chat_id, agent_id: uuidv7() }, 'agent_id'],
      ] as const) {
        await refused(body, 422, 'validation_failed', field);
      }
    });
  });

  it('with the Idempotency-Key of an earlier message continues its chat, unless the message is different', async () => {
    const grace = await stack.signUp('Grace');
    const body = { agent_id: await aPublishedAgent(grace), message: 'What is a mortgage loan?' };
    const key = { 'idempotency-key': uuidv7() };
    stack.model.behave(() => ({ kind: 'status', status: 500 }));
    await grace.post('/chat', body, 503, key);
    answer('A loan on a house.');
    const { chat_id } = await ask(grace, body, 201, key);
    expect(await newestChat(grace)).include({ id: chat_id, round: 1 });
    // The other route has no stored response under this key.
    const different = { ...body, message: 'Who gives a loan?' };
    const { answer: other } = await streamAnswer(grace, different, { headers: key });
    expect(other.chat_id).not.equal(chat_id);
    expect((await grace.get('/chat', 200)).body).include({ total: 2 });
  });
});

describe('a message to an agent with a model of a known context window and price', () => {
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

  const questionTo = async (chat_model: string, message = 'A loan?') => {
    return { agent_id: await aPublishedAgent(ada, { chat_model, max_tokens: 4_000 }), message, enable_rag: false };
  };

  it('gets 422 if it exceeds the context window; it is stored if the model found that, not if the API found it before', async () => {
    const body = await questionTo('small-1', 'loan '.repeat(2_000));
    for (const path of ['/chat', '/chat/stream']) {
      expect((await ada.post(path, body, 422)).body).include({ code: 'context_too_long' });
    }
    expect((await ada.get('/chat', 200)).body).include({ total: 0 });
    expect(model.requests).deep.equal([]);

    model.behave(() => ({ kind: 'status', status: 400, code: 'context_length_exceeded' }));
    const refused = await ada.post('/chat', await questionTo('unknown-1'), 422);
    expect(refused.body).include({ code: 'context_too_long' });
    const [{ id, round }] = Object((await ada.get('/chat', 200)).body).items;
    expect(round).equal(1);
    expect(Object((await ada.get(`/chat/${id}`, 200)).body).messages).length(1);
  });

  it('is recorded with its cost by the price table of the model, and the version of the table', async () => {
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
