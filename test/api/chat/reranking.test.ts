import { expect } from 'chai';
import { anIngestedDocument, aPublishedAgent, ask } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { answerError, answerJson, type ScriptedAnswer } from '#test/support/scripted-server.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';

describe('reranking', () => {
  let stack: ScriptedStack;
  let ada: Member;
  let agentId: string;

  before(async () => {
    stack = await scriptedStack();
    ada = await stack.signUp('Ada');
    agentId = await aPublishedAgent(ada);
    await anIngestedDocument(ada, 'First', 'The loan fee is one percent of the loan fee.');
    await anIngestedDocument(ada, 'Second', 'The fee of a loan is payable in the house of the bank.');
    await anIngestedDocument(ada, 'Third', 'A loan may be repaid early for a small fee.');
  });
  beforeEach(() => {
    stack.model.behave(() => ({ kind: 'answer', text: 'It is one percent.' }));
    stack.model.behaveReranking(null);
  });
  after(() => stack.model.behaveReranking(null));

  /** The documents in the order of the prompt. */
  async function documentsAsked(settings: object): Promise<string[]> {
    await ask(ada, { agent_id: agentId, message: 'What is the loan fee?', ...settings }, 201);
    const prompt =
      stack.model.requests
        .at(-1)
        ?.messages.map((message) => message.content)
        .join('\n') ?? '';
    return [...prompt.matchAll(/<<[a-z0-9]+ \d+ \| ([^|]+) \| p\. \d+>>/g)].map((match) => match[1] ?? '');
  }
  async function degradations(): Promise<string[]> {
    const round = await stack.container.db('rounds').where({ orgId: ada.orgId }).orderBy('startedAt', 'desc').first();
    const events: { type: string; data: { reason?: string } }[] = round.answerEvents;
    return events.filter(({ type }) => type === 'retrieval_degraded').map(({ data }) => data.reason ?? '');
  }
  /** Lets the reranker score documents by their position in this list of names. */
  const ranking =
    (...names: string[]): ScriptedAnswer =>
    (response, body: { documents: string[] }) => {
      const results = body.documents.map((text, index) => {
        return { index, relevance_score: -names.findIndex((name) => text.startsWith(name)) };
      });
      answerJson(200, { results: results.reverse() })(response, body as never);
    };

  it('orders the passages by the scores of the reranker if the message enables it', async () => {
    for (const names of [
      ['Third', 'First', 'Second'],
      ['Second', 'Third', 'First'],
    ]) {
      stack.model.behaveReranking(ranking(...names));
      expect(await documentsAsked({ reranking: true })).deep.equal(names);
      expect(stack.model.rerankRequests).length(1);
      expect(stack.model.rerankRequests[0]?.query).equal('What is the loan fee?');
      expect(await degradations()).deep.equal([]);
    }
  });

  it('keeps the fused order if reranking is disabled or omitted', async () => {
    stack.model.behaveReranking(ranking('Third', 'First', 'Second'));
    const order = await documentsAsked({ reranking: false });
    expect(await documentsAsked({})).deep.equal(order);
    expect(stack.model.rerankRequests).deep.equal([]);
  });

  it('keeps the fused order if the reranker fails, and reports it as an event', async () => {
    const fused = await documentsAsked({ reranking: false });
    const failures: Record<string, ScriptedAnswer | null> = {
      'has none': null,
      'is down': answerError(500, 'down'),
      'is busy': answerError(429, 'slow down', { 'retry-after': '9' }),
      'speaks nonsense': answerJson(200, { results: [{ index: 0, relevance_score: 'high' }] }),
      'breaks off': (response) => {
        response.writeHead(200, { 'content-type': 'application/json', 'content-length': '999' });
        response.write('{"results":', () => response.destroy());
      },
    };
    for (const [name, failure] of Object.entries(failures)) {
      stack.model.behaveReranking(failure);
      expect(await documentsAsked({ reranking: true }), name).deep.equal(fused);
      expect(await degradations(), name).deep.equal(['reranker_unavailable']);
    }
  });

  describe('with the chat model', () => {
    const answer = (text: string) =>
      stack.model.behave(({ response_format }) => ({
        kind: 'answer',
        text: response_format ? text : 'It is one percent.',
      }));

    it('uses the order that the model returns', async () => {
      const fused = await documentsAsked({ reranking: false });
      answer('{"ranking": [3, 1, 2]}');
      const asked = await documentsAsked({ reranking: true, reranking_type: 'llm' });
      expect(asked).deep.equal([fused[2], fused[0], fused[1]]);
      expect(await degradations()).deep.equal([]);
    });

    it('ignores a response that repeats a passage, names none or is not JSON', async () => {
      const fused = await documentsAsked({ reranking: false });
      for (const text of ['{"ranking": [1, 1, 2]}', '{"ranking": []}', 'The third one.', '{"best": 1}']) {
        answer(text);
        expect(await documentsAsked({ reranking: true, reranking_type: 'llm' }), text).deep.equal(fused);
        expect(await degradations(), text).deep.equal(['reranker_unavailable']);
      }
    });
  });

  it('shows the settings of the newest message in the chat', async () => {
    stack.model.behaveReranking(ranking('First', 'Second', 'Third'));
    const { chat_id } = await ask(
      ada,
      { agent_id: agentId, message: 'What is the loan fee?', reranking: true, reranking_type: 'llm' },
      201,
    );
    const { body } = await ada.get('/chat', 200);
    const { items } = body as { items: { id: string }[] };
    expect(items.find((chat) => chat.id === chat_id)).include({ rag_reranking: true, rag_reranking_type: 'llm' });
  });

  it('keeps as many passages of each document as its settings allow', async () => {
    const documents = () => stack.container.db('documents').where({ orgId: ada.orgId });
    const setTopK = (topK: number) =>
      documents().update({
        ragConfig: stack.container.db.raw(`jsonb_set(rag_config, '{reranking,topK}', ?::jsonb)`, [String(topK)]),
      });
    stack.model.behaveReranking(ranking('Third', 'First', 'Second'));
    await setTopK(2);
    expect(await documentsAsked({ reranking: true })).deep.equal(['Third', 'First']);
    await setTopK(8);
  });
});
