import { expect } from 'chai';
import { anIngestedDocument, aPublishedAgent, openChatStream } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { collect } from '#test/support/collect.ts';
import { readEvents, type StreamEvent } from '#test/support/event-stream.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';
import { until } from '#test/support/until.ts';

describe('an answer whose model breaks off', () => {
  let stack: ScriptedStack;
  let ada: Member;
  let agentId: string;

  before(async () => {
    stack = await scriptedStack();
    ada = await stack.signUp('Ada');
    agentId = await aPublishedAgent(ada);
    await anIngestedDocument(ada, 'Loans', 'A loan is repaid month by month over years.');
  });
  afterEach(() => stack.model.behaveEmbedding(null));

  const pieces = (...texts: string[]): string =>
    texts.map((content) => `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content } }] })}\n\n`).join('');
  const namesOf = (events: StreamEvent[]) => events.map(({ event }) => event);
  const roundOf = (question: string) => stack.container.db('rounds').where({ userContent: question }).first();
  const reconnect = (chatId: string, lastId: string) =>
    ada.raw(`/chat/${chatId}/stream`, { headers: { 'last-event-id': lastId } });

  for (const [what, text] of [
    ['a space, which a citation might follow', 'A loan is '],
    ['the beginning of an address', 'A loan is explained at http'],
    ['an exclamation mark, which an image might follow', 'A loan is repaid!'],
  ] as const) {
    it(`sends the text that ends with ${what}, and then the error as last event`, async () => {
      stack.model.behave(() => ({ kind: 'raw', body: pieces(text), ends: true }));
      const message = `What is a loan? ${text}`;
      const events = await collect(await openChatStream(ada, { agent_id: agentId, message }));
      const said = events.filter(({ event }) => event === 'token').map(({ data }) => (data as { t: string }).t);
      expect(said.join('')).equal(text);

      const { chatId, lastSeq } = await roundOf(message);
      expect(events.at(-1)).include({ event: 'error', id: `1:${lastSeq}` });
      expect((await reconnect(chatId, `1:${lastSeq}`)).status).equal(204);
    });
  }

  it('sends the error only after a pending citation check, and no event after it', async () => {
    const asked = Promise.withResolvers<void>();
    const answer = Promise.withResolvers<void>();
    stack.model.behave(() => {
      stack.model.behaveEmbedding(async (response) => {
        asked.resolve();
        await answer.promise;
        response.writeHead(500).end('{}');
      });
      return { kind: 'raw', body: pieces('Zebras graze yonder [1]. ', 'And then ', 'came more.'), ends: true };
    });
    const message = 'How is a loan repaid over years?';
    const reading = collect(await openChatStream(ada, { agent_id: agentId, message }));
    await asked.promise;
    await until('the model has ended', async () => stack.model.openStreams() === 0);
    answer.resolve();

    const events = await reading;
    expect(namesOf(events).indexOf('error')).equal(events.length - 1);
    const { chatId, lastSeq } = await roundOf(message);
    expect(events.at(-1)?.id).equal(`1:${lastSeq}`);
    const again = await collect(readEvents(await ada.raw(`/chat/${chatId}/stream`)));
    expect(again).deep.equal(events);
  });
});
