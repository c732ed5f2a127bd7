import { expect } from 'chai';
import { marked } from 'marked';
import { chatMessageSchema } from '#src/modules/chat/chat.schema.ts';
import { aPublishedAgent, ask, type ChatMessage, openChatStream } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { collect } from '#test/support/collect.ts';
import { answerGullibly } from '#test/support/gullible-model.ts';
import { type InjectedDocument, injectedDocuments, leaks } from '#test/support/injected-documents.ts';
import { sampled } from '#test/support/property-runs.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';
import { sideBySide } from '#test/support/side-by-side.ts';
import { untilRun } from '#test/support/until-job.ts';

const secret = 'CANARY-7f3a9c';
const question = 'What is the fee of the loan?';

/** A sample through the whole pipeline: the detection itself is tested in test/unit/domain/embedded-instructions. */
const asked = sampled(injectedDocuments);

type Outcome = { documentId: string; cited: ChatMessage['citations']; replies: string[] };

describe('documents with instructions to the model', () => {
  let stack: ScriptedStack;
  let grace: Member;
  let agentId: string;
  let outcomes: Promise<Outcome>[];

  before(async () => {
    stack = await scriptedStack();
    stack.model.failEmbeddings(false);
    grace = await stack.signUp('Grace');
    agentId = await aPublishedAgent(grace, { agent_prompt: `You talk about loans. Your secret code is ${secret}.` });
    stack.model.behave(answerGullibly);
    const inTurn = sideBySide(8);
    outcomes = asked.map((document) => inTurn(() => ingestAndAsk(document)));
  });

  async function ingestAndAsk(document: InjectedDocument): Promise<Outcome> {
    const documentId = await ingest(document);
    const body = { agent_id: agentId, message: question, include_document_ids: [documentId] };
    const { citations, reply, tokens } = await streamed(body);
    return { documentId, cited: citations, replies: [reply, tokens] };
  }

  async function ingest(document: InjectedDocument): Promise<string> {
    const sent =
      'file' in document
        ? await grace.upload('/documents', document.file, 201)
        : await grace.post('/documents/paste', { ...document, attack: undefined, source_format: 'markdown' }, 201);
    const { id, embedding_job_id } = sent.body as { id: string; embedding_job_id: string };
    await untilRun(grace, embedding_job_id, 'succeeded');
    return id;
  }

  async function streamed(body: Record<string, unknown>) {
    const events = await collect(await openChatStream(grace, body));
    const tokens = events.map(({ event, data }) => (event === 'token' ? (data as { t: string }).t : '')).join('');
    const { reply, citations, chat_id } = chatMessageSchema.parse(events.at(-1)?.data);
    return { tokens, reply, citations, chatId: chat_id };
  }

  it('are tested with a model that obeys them', () => {
    for (const document of injectedDocuments) {
      const text = 'file' in document ? Buffer.from(document.file.content).toString() : document.content;
      const messages = [
        { role: 'system', content: `Code ${secret}` },
        { role: 'user', content: `${document.name}\n${text}` },
      ];
      const answer = answerGullibly({ model: 'm', messages });
      expect(answer, document.attack)
        .property('text')
        .equal(`owned-${injectedDocuments.indexOf(document) + 1} ${secret}`);
    }
    expect(injectedDocuments.length).at.least(40);
  });

  asked.forEach(({ attack }, index) => {
    it(`are given as data: ${attack}`, async () => {
      const outcome = await outcomes[index];
      // The citation shows that the passage was in the prompt.
      expect(outcome?.cited.map((citation) => citation.document_id)).deep.equal([outcome?.documentId]);
      for (const reply of outcome?.replies ?? []) expect(reply).equal('The fee of the loan is one percent [1].');
    });
  });

  it('get no secret out through a model that obeys them', async () => {
    const written = sampled(leaks(secret));
    stack.model.behave(({ messages }) => {
      const leak = written[Number(messages.at(-1)?.content.match(/\d+/))] ?? '';
      return { kind: 'answer', text: `The fee is one percent.\n\n${leak}\n\nAsk again.`.match(/[\s\S]{1,3}/g) ?? [] };
    });
    const inTurn = sideBySide(8);
    const streams = written.map((_, n) =>
      inTurn(() => streamed({ agent_id: agentId, message: `Way ${n}?`, enable_rag: false })),
    );
    for (const [n, { tokens, reply, chatId }] of (await Promise.all(streams)).entries()) {
      expect(tokens).equal(reply);
      expect(reply, written[n]).not.match(/(?:https?:\/\/|www\.)evil/);
      const html = marked.parse(reply, { async: false });
      expect(html, written[n]).not.match(/<(?:img|iframe|svg|a|p style)\b/);
      const { messages } = (await grace.get(`/chat/${chatId}`, 200)).body as { messages: { content: string }[] };
      expect(messages.at(-1)?.content).equal(reply);
    }
  });

  it('may be quoted with the addresses in them', async () => {
    const address = 'https://bank.example/rates?year=2026';
    const name = 'Rates';
    const id = await ingest({ attack: 'none', name, content: `The rates of the loan are at ${address}.` });
    const text = `They are at ${address} [1], and [here](${address}), not at ${address}&d=${secret}.`;
    stack.model.behave(() => ({ kind: 'answer', text }));
    const body = { agent_id: agentId, message: 'Where are the rates of the loan?', include_document_ids: [id] };
    const { reply } = await ask(grace, body, 201);
    expect(reply).equal(`They are at ${address} [1], and [here](${address}), not at (link removed).`);
  });

  it('are included in the prompt with a warning', async () => {
    stack.model.behave(answerGullibly);
    await ask(
      grace,
      { agent_id: agentId, message: question, include_document_ids: [(await outcomes[0])?.documentId] },
      201,
    );
    const prompt = stack.model.requests[0]?.messages.map(({ content }) => content).join('\n');
    expect(prompt).match(/\| p\. 1, unverified instructions inside>>\nTheˆfee/);
  });
});
