import { expect } from 'chai';
import { chatMessageSchema } from '#src/modules/chat/chat.schema.ts';
import { anIngestedDocument, aPublishedAgent, ask, type ChatMessage, openChatStream } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { collect } from '#test/support/collect.ts';
import type { ChatRequest } from '#test/support/scripted-model.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';

type Source = { documentId: string; says: string };

describe('the citations of an answer', () => {
  let stack: ScriptedStack;
  let grace: Member;
  let agentId: string;
  let documents: Record<string, Source>;

  before(async () => {
    stack = await scriptedStack();
    grace = await stack.signUp('Grace');
    agentId = await aPublishedAgent(grace);
    const document = async (name: string, says: string): Promise<Source> => ({
      documentId: await anIngestedDocument(grace, name, `${says}.`),
      says,
    });
    documents = {
      Fees: await document('Fees', 'Early repayment of the loan costs one percent'),
      Hours: await document('Hours', 'The loan counter opens at nine on weekdays'),
    };
  });
  beforeEach(() => stack.model.failEmbeddings(false));

  /** The texts of the passages in a prompt, in the order of their numbers. */
  function sourcesOf(request: ChatRequest): [Source, Source] {
    const prompt = request.messages.map((message) => message.content).join('\n');
    const names = [...prompt.matchAll(/<<[a-z0-9]+ \d+ \| ([^|]+) \| p\. \d+>>/g)].map(([, name = '']) => name);
    const [first, second] = names.flatMap((name) => documents[name] ?? []);
    if (first === undefined || second === undefined) throw new Error('the prompt lacks a passage');
    return [first, second];
  }

  /** Lets the model answer with the first and the second passage, and streams the answer. */
  async function stream(
    write: (first: string, second: string) => string | string[],
    body: Record<string, unknown> = { agent_id: agentId },
  ): Promise<{ answer: ChatMessage; tokens: string; first: Source; second: Source }> {
    let sources: [Source, Source] | undefined;
    stack.model.behave((request) => {
      sources = sourcesOf(request);
      return { kind: 'answer', text: write(sources[0].says, sources[1].says) };
    });
    const events = await collect(await openChatStream(grace, { message: 'What about the loan?', ...body }));
    const tokens = events.map(({ event, data }) => (event === 'token' ? (data as { t: string }).t : '')).join('');
    const answer = chatMessageSchema.parse(events.at(-1)?.data);
    expect(answer.reply).equal(tokens);
    const { messages } = (await grace.get(`/chat/${answer.chat_id}`, 200)).body as {
      messages: Pick<ChatMessage, 'citations'>[];
    };
    expect(messages.at(-1)).deep.include({ content: answer.reply, citations: answer.citations });
    if (sources === undefined) throw new Error('the model was not asked');
    return { answer, tokens, first: sources[0], second: sources[1] };
  }
  const cited = (answer: ChatMessage) => answer.citations.map((citation) => citation.document_id);
  const droppedFrom = (answer: ChatMessage) =>
    answer.echo.events.filter((event) => event.type === 'citation_dropped').map((event) => event.data);

  it('are numbered in the order of their first mention', async () => {
    const { answer, first, second } = await stream((one, two) => `${two} [2]. ${one} [1], but ${two} [2].`);
    expect(answer.reply).equal(`${second.says} [1]. ${first.says} [2], but ${second.says} [1].`);
    expect(cited(answer)).deep.equal([second.documentId, first.documentId]);
  });

  it('are only those that hold, and the text has no other markers', async () => {
    const { answer, first, second } = await stream(
      (one, two) => `${one} [7]. Penguins swim [1]. ${two} [2, 9]. Code like a[12] stays, ${one} [1].`,
    );
    expect(answer.reply).equal(
      `${first.says}. Penguins swim. ${second.says} [1]. Code like a[12] stays, ${first.says} [2].`,
    );
    expect(cited(answer)).deep.equal([second.documentId, first.documentId]);
    expect(droppedFrom(answer)).deep.equal([
      { n: 7, reason: 'out_of_range' },
      { n: 1, reason: 'unsupported' },
      { n: 9, reason: 'out_of_range' },
    ]);
  });

  it('are found in markers that the model sends in pieces', async () => {
    const { answer, first, second } = await stream((one, two) => [one, ' ', '[', '1', ']', '. ', two, ' [', '2', '].']);
    expect(answer.reply).equal(`${first.says} [1]. ${second.says} [2].`);
    expect(cited(answer)).deep.equal([first.documentId, second.documentId]);
  });

  it('may be several for one statement', async () => {
    const { answer, first, second } = await stream((one, two) => `${one} and ${two}. [2, 1]`);
    expect(answer.reply).equal(`${first.says} and ${second.says}. [1, 2]`);
    expect(cited(answer)).deep.equal([second.documentId, first.documentId]);
  });

  it('are checked by embeddings if the words differ, and by words alone while the embedder is down', async () => {
    const paraphrase = 'Paying your mortgage back ahead of schedule has a price of a hundredth [1][2].';
    const byMeaning = await stream(() => paraphrase);
    expect(byMeaning.answer.citations).not.empty;
    stack.model.failEmbeddings(true);
    const byWords = await stream((one) => `${paraphrase} ${one} [1].`);
    expect(byWords.answer.reply).equal(`${paraphrase.replace(' [1][2]', '')} ${byWords.first.says} [1].`);
  });

  it('leave out a document that became unreadable while the answer was written', async () => {
    const member = await stack.signUp('Eve');
    const agent = await aPublishedAgent(member);
    const documentId = await anIngestedDocument(member, 'Terms', 'Early repayment of the loan costs one percent.');
    const takenAway = Promise.withResolvers<void>();
    stack.model.behave(() => ({
      kind: 'answer',
      text: 'Early repayment costs one percent [1].',
      until: takenAway.promise,
    }));
    const events = await openChatStream(member, { agent_id: agent, message: 'What does early repayment cost?' });
    await events.next();
    await stack.container
      .db('documents')
      .where({ id: documentId })
      .update({ acl: ['user:another'] });
    takenAway.resolve();
    const answer = chatMessageSchema.parse((await collect(events)).at(-1)?.data);
    expect(answer).deep.include({ reply: 'Early repayment costs one percent.', citations: [] });
    expect(droppedFrom(answer)).deep.equal([{ n: 1, reason: 'unreadable' }]);
  });

  it('are found by similarity if the reply has no marker', async () => {
    const { answer, first } = await stream((one) => `${one}.`);
    expect(answer.reply).equal(`${first.says}.`);
    expect(cited(answer)).deep.equal([first.documentId]);
  });

  it('have no markers in the next prompt', async () => {
    const { answer, second } = await stream((_, two) => `${two} [2].`);
    await stream((one) => `${one} [1].`, { chat_id: answer.chat_id });
    const spoken = stack.model.requests[0]?.messages.filter((message) => message.role === 'assistant');
    expect(spoken?.map((message) => message.content)).deep.equal([`${second.says}.`]);
  });

  it('are empty in a chat that does not use documents', async () => {
    stack.model.behave(() => ({ kind: 'answer', text: 'Write x = [1, 2].' }));
    const answer = await ask(grace, { agent_id: agentId, message: 'A list of loans?', enable_rag: false }, 201);
    expect(answer).deep.include({ reply: 'Write x = [1, 2].', citations: [] });
  });

  it('502 when the model answers only with markers that do not hold', async () => {
    stack.model.behave(() => ({ kind: 'answer', text: ' [7] [8]' }));
    const { body } = await grace.post('/chat', { agent_id: agentId, message: 'What about the loan?' }, 502);
    expect(body).include({ code: 'model_response_invalid' });
  });
});
