import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import { alignmentWorkflowId } from '#src/contracts/workflow-ids.ts';
import { problemSchema } from '#src/http/response/problem.ts';
import { aColleague, anIngestedDocument, aPublishedAgent, ask, openChatStream } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { collect } from '#test/support/collect.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';
import { until } from '#test/support/until.ts';
import { untilJob } from '#test/support/until-job.ts';

/** `/chat/stream` answers a refusal with a problem, not with a stream. */
const paths = ['/chat', '/chat/stream'];

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
      const { echo } = await send({ message: 'What is the interest rate of a loan?' });
      expect(echo).include({ state: 'stable', round: 1 });
      expect(echo.alignment_score).above(0.8);
      await untilJob(ada, reply.postprocess_job_id, 'succeeded');
      await until('the chat has the title of the model', async () => {
        const { title } = Object((await ada.get(`/chat/${reply.chat_id}`, 200)).body);
        return title === 'A scripted title';
      });
    });

    it('is answered from all documents that the user may read, or only from those that are chosen', async () => {
      const grace = await stack.signUp('Grace');
      const agent_id = await aPublishedAgent(grace);
      const terms = await anIngestedDocument(grace, 'Loan terms', 'The loan fee is one percent.');
      const rules = await anIngestedDocument(grace, 'House rules', 'The loan fee is payable in the house of the bank.');
      await anIngestedDocument(ada, 'Canary', 'The loan fee is a canary of another organization.');
      const documentsInPrompt = async (settings: object): Promise<string[]> => {
        answer('It is one percent.');
        await send({ agent_id, message: 'What is the loan fee?', ...settings }, grace);
        const prompt = stack.model.requests[0]?.messages.map(({ content }) => content).join('\n') ?? '';
        expect(prompt).not.match(/canary/i);
        const names = prompt.matchAll(/<<[a-z0-9]+ \d+ \| ([^|]+) \| p\. \d+>>/g);
        return Array.from(names, ([, name = '']) => name.replaceAll('ˆ', ' ')).sort();
      };
      expect(await documentsInPrompt({ include_document_ids: [] })).deep.equal(['House rules', 'Loan terms']);
      expect(await documentsInPrompt({ include_document_ids: [rules.toUpperCase()] })).deep.equal(['House rules']);
      expect(await documentsInPrompt({ exclude_document_ids: [rules] })).deep.equal(['Loan terms']);
      const acl = ['user:another'];
      await stack.container.db('documents').where({ id: terms }).update({ acl });
      expect(await documentsInPrompt({}), 'the private documents of a colleague').deep.equal(['House rules']);
    });

    it('may be long and have unusual characters, and is stored unchanged', async () => {
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

  describe('in an existing chat', () => {
    it('is answered in the failed round when it is sent again; a different message opens the next round', async () => {
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
  });

  describe('is refused by POST /chat and POST /chat/stream with', () => {
    async function refused(body: object, status: number, code: string, field?: string, member = ada): Promise<void> {
      for (const path of paths) {
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
      const agent_id = await aPublishedAgent(ada, { visibility: 'org_level' });
      const grace = await aColleague(stack, ada);
      const { chat_id: begun } = await send({ agent_id }, grace);
      const acl = [`user:${ada.userId}`];
      await stack.container.db('agents').where({ id: agent_id }).update({ visibility: 'personal', acl });
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
      const { body: team } = await ada.post('/entity/teams', { name: 'Others' }, 201);
      for (const id of [Object(team).id, uuidv7()]) {
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

  it('gets 503 while the chat model is down, but is kept, and 502 when the answer of the model is empty', async () => {
    const body = { agent_id: agentId, message: 'A loan?' };
    stack.model.behave(() => ({ kind: 'status', status: 500 }));
    expect((await ada.post('/chat', body, 503)).body).include({ code: 'model_unavailable' });
    const { id, round } = await newestChat();
    expect([round, await contentsOf(id)]).deep.equal([1, ['A loan?']]);
    answer(' ');
    expect((await ada.post('/chat', body, 502)).body).include({ code: 'model_response_invalid' });
  });

  describe('with an Idempotency-Key', () => {
    const message = 'What is a mortgage loan?';
    let key: { 'idempotency-key': string };
    beforeEach(() => {
      key = { 'idempotency-key': uuidv7() };
    });
    const forgetResponse = () => stack.container.db('idempotencyKeys').where({ key: key['idempotency-key'] }).delete();

    it('gets the same answer after its stored response is gone; a different message starts a new chat', async () => {
      const body = { agent_id: agentId, message };
      const { chat_id, postprocess_job_id } = await ask(ada, body, 201, key);
      await forgetResponse();
      expect(await ask(ada, body, 201, key)).include({ chat_id, postprocess_job_id });
      expect(stack.model.requests).length(1);
      await forgetResponse();
      const other = await ask(ada, { ...body, message: 'Who gives a loan?' }, 201, key);
      expect(other.chat_id).not.equal(chat_id);
    });

    it('continues the chat of the first attempt if that attempt was not answered', async () => {
      const grace = await stack.signUp('Grace');
      const body = { agent_id: await aPublishedAgent(grace), message };
      stack.model.behave(() => ({ kind: 'status', status: 500 }));
      await grace.post('/chat', body, 503, key);
      answer('A loan on a house.');
      await ask(grace, body, 201, key);
      expect((await grace.get('/chat', 200)).body).include({ total: 1 });
      expect(await newestChat(grace)).include({ round: 1 });
    });
  });
});
