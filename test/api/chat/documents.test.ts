import { expect } from 'chai';
import { chatMessageSchema } from '#src/modules/chat/chat.schema.ts';
import { ragConfigResultSchema } from '#src/modules/rag/rag.schema.ts';
import {
  aColleague,
  anIngestedDocument,
  anUpload,
  aPublishedAgent,
  ask,
  type ChatMessage,
  openChatStream,
  rootOf,
  streamAnswer,
} from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { collect } from '#test/support/collect.ts';
import { pdfFile } from '#test/support/document-fixtures.ts';
import { answerError, answerJson } from '#test/support/scripted-server.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';
import { untilRun } from '#test/support/until-job.ts';

const cited = ({ citations }: ChatMessage) => citations.map(({ document_id }) => document_id);
const dataOf = (wanted: string, { echo }: ChatMessage) =>
  echo.events.filter(({ type }) => type === wanted).map(({ data }) => data);
const dropped = (answer: ChatMessage) => dataOf('citation_dropped', answer);

describe('answers from documents:', () => {
  let stack: ScriptedStack;
  let ada: Member;
  let agentId: string;

  beforeEach(async () => {
    stack = await scriptedStack();
    answer('It is one percent.');
  });
  afterEach(() => {
    stack.model.failEmbeddings(false);
    stack.model.behaveReranking(null);
  });
  const answer = (text: string) => stack.model.behave(() => ({ kind: 'answer', text }));
  async function signUp(): Promise<void> {
    ada = await (await scriptedStack()).signUp('Ada');
    agentId = await aPublishedAgent(ada);
  }
  /** The names of documents in the newest prompt, in the order of their numbers. */
  function documentsInPrompt(): string[] {
    const prompt = stack.model.requests.at(-1)?.messages.map(({ content }) => content) ?? [];
    return Array.from(prompt.join('\n').matchAll(/<<[a-z0-9]+ \d+ \| ([^|]+) \| p\. \d+>>/g), ([, name = '']) => name);
  }

  describe('citations', () => {
    const documents: { name: string; says: string; documentId: string }[] = [];
    before(async () => {
      await signUp();
      for (const [name, says] of [
        ['Fees', 'Early repayment of the loan costs one percent'],
        ['Hours', 'The loan counter opens at nine on weekdays'],
      ] as const) {
        documents.push({ name, says, documentId: await anIngestedDocument(ada, name, `${says}.`) });
      }
    });

    /** Lets the model answer with the first and the second passage, and streams the answer. */
    async function write(text: (one: string, two: string) => string | string[], body: object = {}) {
      const sources = () => documentsInPrompt().flatMap((named) => documents.filter(({ name }) => name === named));
      stack.model.behave(() => {
        const [one, two] = sources();
        return { kind: 'answer', text: text(one?.says ?? '', two?.says ?? '') };
      });
      const sent = { agent_id: agentId, message: 'What about the loan?', ...body };
      const { answer: message, tokens } = await streamAnswer(ada, sent);
      expect(message.reply).equal(tokens);
      const { messages } = Object((await ada.get(`/chat/${message.chat_id}`, 200)).body);
      expect(messages.at(-1)).deep.include({ content: message.reply, citations: message.citations });
      const [first, second] = sources();
      if (first === undefined || second === undefined) throw new Error('the prompt lacks a passage');
      return { message, first, second };
    }

    it('are kept if their passage supports them, numbered by first mention, and lead to chunks', async () => {
      const { message, first, second } = await write(
        (one, two) => `${two} [2]. ${one} [7]. Penguins swim [1]. ${one} [1, 9], but ${two} [2], as a[12] says.`,
      );
      const parts = [`${second.says} [1]. ${first.says}. Penguins swim.`, `${first.says} [2], but ${second.says} [1]`];
      expect(message.reply).equal(`${parts.join(' ')}, as a[12] says.`);
      expect(cited(message)).deep.equal([second.documentId, first.documentId]);
      expect(dropped(message)).deep.equal([
        { n: 7, reason: 'out_of_range' },
        { n: 1, reason: 'unsupported' },
        { n: 9, reason: 'out_of_range' },
      ]);
      await ada.get(`/documents/chunks/${message.citations[0]?.chunk_id}`, 200);
    });

    it('are checked by embeddings, and by words alone while the embedding service is down', async () => {
      const paraphrase = 'Paying your mortgage back ahead of schedule has a price of a hundredth [1][2].';
      expect((await write(() => paraphrase)).message.citations).not.empty;
      stack.model.failEmbeddings(true);
      const { message, first } = await write((one) => `${paraphrase} ${one} [1].`);
      expect(message.reply).equal(`${paraphrase.replace(' [1][2]', '')} ${first.says} [1].`);
    });

    it('are absent in a chat without documents; 502 if the model writes only citation markers', async () => {
      answer('Write x = [1, 2].');
      const plain = await ask(ada, { agent_id: agentId, message: 'A list of loans?', enable_rag: false }, 201);
      expect(plain).deep.include({ reply: 'Write x = [1, 2].', citations: [] });
      answer(' [7] [8]');
      const { body } = await ada.post('/chat', { agent_id: agentId, message: 'What about the loan?' }, 502);
      expect(body).include({ code: 'model_response_invalid' });
    });

    it('name page, heading and words of the cited sentence in answers, chunks and exports', async () => {
      await signUp();
      const quote = 'A replacement *key* costs forty crowns.';
      const [first, second] = [
        ['Lockers', 'A locker is rented for a whole term by the front desk.'],
        ['Lost keys', quote],
      ].map(([heading = '', text = '']) => [
        { text: heading, x: 50, y: 750, size: 24, font: 'bold' as const },
        { text, x: 50, y: 700 },
        ...Array.from({ length: 5 }, (_, n) => ({
          text: `The front desk of ${heading} writes note ${n}.`,
          x: 50,
          y: 680 - n * 12,
        })),
      ]);
      const name = 'House_rules.pdf';
      const content = new Uint8Array(pdfFile([first ?? [], second ?? []]));
      const { id: document_id, embedding_job_id } = await anUpload(ada, { name, content });
      await untilRun(ada, embedding_job_id ?? '', 'succeeded');

      answer('For a lost one, a replacement key costs forty crowns [1].');
      const { chat_id, citations } = await ask(ada, { agent_id: agentId, message: 'What does a lost key cost?' }, 201);
      const [citation] = citations;
      const place = { document_id, document_name: name, page_number: 2, heading: 'Lost keys', quote };
      expect(citation).deep.include(place);

      const path = `/documents/chunks/${citation?.chunk_id}`;
      const marked = `${path}?quote_offset=${citation?.content_offset}&quote_length=${quote.length}`;
      const chunk = Object((await ada.get(marked, 200)).body);
      expect(chunk.page_number).equal(1);
      expect(chunk.content.slice(chunk.highlight.start, chunk.highlight.end)).equal(quote);
      for (const query of ['', '?quote_offset=100000&quote_length=5', '?quote_offset=0&quote_length=100000']) {
        expect((await ada.get(path + query, 200)).body, query).include({ highlight: null });
      }

      const { turns } = Object((await ada.get(`/chat/${chat_id}/export?format=json`, 200)).body);
      expect(turns[1].citations).deep.equal(citations);
      const source = String.raw`1. House\_rules.pdf, page 2, under “Lost keys”: “A replacement \*key\* costs forty crowns.”`;
      expect(String((await ada.get(`/chat/${chat_id}/export`, 200)).body)).include(
        `[1].\n\n**Sources**\n\n${source}\n`,
      );
    });

    it('of a document that became unreadable for the user while the answer was written are removed', async () => {
      await signUp();
      const grace = await aColleague(stack, ada);
      const inShared = { target_folder_id: await rootOf(ada, 'org_root') };
      const id = await anIngestedDocument(ada, 'Terms', 'Early repayment of the loan costs one percent.', inShared);
      const agent_id = await aPublishedAgent(grace);
      const takenAway = Promise.withResolvers<void>();
      const text = 'Early repayment costs one percent [1].';
      stack.model.behave(() => ({ kind: 'answer', text, until: takenAway.promise }));
      const events = await openChatStream(grace, { agent_id, message: 'What does early repayment cost?' });
      await events.next();
      const target_folder_id = await rootOf(ada, 'personal_root');
      await ada.patch(`/documents/${id}`, { target_folder_id }, 200);
      takenAway.resolve();
      const message = chatMessageSchema.parse((await collect(events)).at(-1)?.data);
      expect(message).deep.include({ reply: 'Early repayment costs one percent.', citations: [] });
      expect(dropped(message)).deep.equal([{ n: 1, reason: 'unreadable' }]);
    });
  });

  it('passages are ordered by the reranker or a chat model if requested, else by their search rank', async () => {
    await signUp();
    await anIngestedDocument(ada, 'First', 'The loan fee is one percent of the loan fee.');
    await anIngestedDocument(ada, 'Second', 'The fee of a loan is payable in the house of the bank.');
    await anIngestedDocument(ada, 'Third', 'A loan may be repaid early for a small fee.');
    const askWith = (settings: object) =>
      ask(ada, { agent_id: agentId, message: 'What is the loan fee?', ...settings }, 201);
    const ranked = ['Third', 'First', 'Second'];
    const rank = () =>
      stack.model.behaveReranking((response, { documents }: { documents: string[] }) => {
        const results = documents.map((text, index) => {
          return { index, relevance_score: -ranked.findIndex((name) => text.startsWith(name)) };
        });
        answerJson(200, { results: results.reverse() })(response, null as never);
      });
    await askWith({});
    const fused = documentsInPrompt();
    const [byScore, byModel] = [{ reranking: true }, { reranking: true, reranking_type: 'llm' }];
    for (const [what, settings, behave, order] of [
      ['not asked', { reranking: false }, rank, fused],
      ['asked', byScore, rank, ranked],
      ['down', byScore, () => stack.model.behaveReranking(answerError(500, 'down')), fused],
      ['missing', byScore, () => stack.model.behaveReranking(null), fused],
      ['a chat model', byModel, () => answer('{"ranking": [3, 1, 2]}'), [fused[2], fused[0], fused[1]]],
      ['no order', byModel, () => answer('The third one.'), fused],
    ] as const) {
      behave();
      const degradations = dataOf('retrieval_degraded', await askWith(settings));
      expect(documentsInPrompt(), what).deep.equal(order);
      const isDegraded = settings.reranking && order === fused;
      expect(degradations, what).deep.equal(isDegraded ? [{ reason: 'reranker_unavailable' }] : []);
    }
    const [newest] = Object((await ada.get('/chat', 200)).body).items;
    expect(newest).include({ rag_reranking: true, rag_reranking_type: 'llm' });
  });

  it('a message gets 503 while its documents need an unavailable vector search, and an answer later', async () => {
    await signUp();
    const says = 'Early repayment of the loan costs a fee of one percent.';
    const documentId = await anIngestedDocument(ada, 'Terms', says);
    const { config } = ragConfigResultSchema.parse((await ada.get(`/rag/config/${documentId}`, 200)).body);
    const retrieval = { ...config.retrieval, mode: 'vector' };
    await ada.put(`/rag/config/${documentId}`, { ...config, retrieval }, 200);
    const question = { agent_id: agentId, message: 'What does early repayment cost?' };
    answer(`${says} [1]`);
    stack.model.failEmbeddings(true);
    const { body, headers } = await ada.post('/chat', question, 503);
    expect(body).include({ code: 'service_unavailable' });
    expect(headers.get('retry-after')).match(/^\d+$/);
    expect(stack.model.requests).deep.equal([]);
    const { items } = Object((await ada.get('/chat', 200)).body);
    expect(items).length(1);
    const events = await collect(await openChatStream(ada, question));
    expect(events.map(({ event }) => event)).deep.equal(['error']);
    expect(events[0]?.data).property('detail').include('configured for vector search only');

    stack.model.failEmbeddings(false);
    const again = await ask(ada, { chat_id: items[0].id, message: question.message }, 200);
    expect(cited(again)).deep.equal([documentId]);
    expect(again.postprocess_job_id).match(/\.1$/);
  });
});
