import { expect } from 'chai';
import { chatMessageSchema } from '#src/modules/chat/chat.schema.ts';
import { ragConfigResultSchema } from '#src/modules/rag/rag.schema.ts';
import { anIngestedDocument, aPublishedAgent, ask, openChatStream } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { collect } from '#test/support/collect.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';

describe('a chat over documents with vector search only', () => {
  const says = 'Early repayment of the loan costs a fee of one percent.';
  let stack: ScriptedStack;
  let ada: Member;
  let agentId: string;
  let documentId: string;

  before(async () => {
    stack = await scriptedStack();
    ada = await stack.signUp('Ada');
    agentId = await aPublishedAgent(ada);
    documentId = await anIngestedDocument(ada, 'Terms', says);
    const { config } = ragConfigResultSchema.parse((await ada.get(`/rag/config/${documentId}`, 200)).body);
    const retrieval = { ...config.retrieval, mode: 'vector' };
    await ada.put(`/rag/config/${documentId}`, { ...config, retrieval }, 200);
  });
  beforeEach(() => {
    stack.model.failEmbeddings(true);
    stack.model.behave(() => ({ kind: 'answer', text: `${says} [1]` }));
  });
  afterEach(() => stack.model.failEmbeddings(false));

  const message = 'What does early repayment cost?';
  async function newestChat(): Promise<string> {
    const { items } = (await ada.get('/chat?limit=1', 200)).body as { items: { id: string }[] };
    return items[0]?.id ?? '';
  }
  const roundsOf = (chatId: string) => stack.container.db('rounds').where({ chatId }).orderBy('round');

  it('503 while the embedder is down, and answers the message when it is sent again', async () => {
    const { body, headers } = await ada.post('/chat', { agent_id: agentId, message }, 503);
    expect(body).include({ code: 'service_unavailable' });
    expect(headers.get('retry-after')).match(/^\d+$/);
    expect(stack.model.requests).deep.equal([]);
    const chatId = await newestChat();
    expect(await roundsOf(chatId)).length(1);
    expect((await roundsOf(chatId))[0]).include({ status: 'error', errorCode: 'service_unavailable' });

    stack.model.failEmbeddings(false);
    const answer = await ask(ada, { chat_id: chatId, message }, 200);
    expect(answer.citations.map((citation) => citation.document_id)).deep.equal([documentId]);
    expect(await roundsOf(chatId)).length(1);
  });

  it('ends the stream with the error', async () => {
    const events = await collect(await openChatStream(ada, { agent_id: agentId, message }));
    expect(events.map(({ event }) => event)).deep.equal(['error']);
    expect(events[0]?.data).property('detail').include('configured for vector search only');
    expect((await roundsOf(await newestChat()))[0]).include({ status: 'error', errorCode: 'service_unavailable' });
  });

  it('searches by words if other documents allow it', async () => {
    stack.model.failEmbeddings(false);
    const other = await anIngestedDocument(ada, 'Fees', 'The early repayment fee of the loan is one percent.');
    stack.model.failEmbeddings(true);
    const events = await collect(await openChatStream(ada, { agent_id: agentId, message }));
    const answer = chatMessageSchema.parse(events.at(-1)?.data);
    expect(answer.citations.map((citation) => citation.document_id)).deep.equal([other]);
    const [round] = await roundsOf(answer.chat_id);
    const degraded = round.answerEvents.filter(({ type }: { type: string }) => type === 'retrieval_degraded');
    expect(degraded.map(({ data }: { data: object }) => data)).deep.equal([{ reason: 'embedder_unavailable' }]);
  });

  it('accepts a question of 100,000 characters', async () => {
    stack.model.failEmbeddings(false);
    const long = `${message} ${'and so on, '.repeat(10_000)}`.slice(0, 100_000);
    expect(await ask(ada, { agent_id: agentId, message: long }, 201))
      .property('reply')
      .include('one percent');
  });
});
