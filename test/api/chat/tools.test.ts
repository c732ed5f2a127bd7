import { expect } from 'chai';
import { chatHistorySchema, chatMessageSchema } from '#src/modules/chat/chat.schema.ts';
import { anIngestedDocument, aPublishedAgent, ask, type ChatMessage, openChatStream } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { collect } from '#test/support/collect.ts';
import { readEvents } from '#test/support/event-stream.ts';
import type { Behaviour, ChatRequest } from '#test/support/scripted-model.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';
import { answerWith, redirectTo } from '#test/support/web-site.ts';

type Call = { name: string; args: unknown };
const call = (name: string, args: unknown = {}): Call => ({ name, args });

/** Makes these calls one after the other, and then answers; the answer may use the last result. */
function calling(calls: readonly (Call | Call[])[], answer: string | ((request: ChatRequest) => string) = 'Well.') {
  return (request: ChatRequest): Behaviour => {
    const turns = request.messages.filter(({ tool_calls }) => tool_calls !== undefined).length;
    const next = request.tools === undefined ? undefined : calls[turns];
    if (next !== undefined) return { kind: 'call', calls: [next].flat() };
    return { kind: 'answer', text: typeof answer === 'string' ? answer : answer(request) };
  };
}

const resultsIn = ({ messages }: ChatRequest): string[] =>
  messages.filter(({ role }) => role === 'tool').map(({ content }) => content.replaceAll('ˆ', ' '));

describe('tools in a chat', () => {
  let stack: ScriptedStack;
  let ada: Member;
  let agentId: string;
  let terms: string;

  before(async () => {
    stack = await scriptedStack();
    stack.model.failEmbeddings(false);
    ada = await stack.signUp('Ada');
    const enabled_tools = [
      'knowledge.search',
      'knowledge.read',
      'web.fetch',
      'web.search',
      'http.request',
      'time.now',
      'math.evaluate',
    ];
    agentId = await aPublishedAgent(ada, { enabled_tools });
    terms = await anIngestedDocument(ada, 'Terms', 'Early repayment of the loan costs a fee of one percent.');
  });

  const lastRequest = (): ChatRequest => {
    const request = stack.model.requests.at(-1);
    if (request === undefined) throw new Error('The model was not asked.');
    return request;
  };
  const told = (): string[] => resultsIn(lastRequest());
  const send = (message: string, fields: object = {}): Promise<ChatMessage> =>
    ask(ada, { agent_id: agentId, message, ...fields }, 201);
  const outcomes = ({ tool_calls }: ChatMessage) =>
    tool_calls.map(({ tool, status, error_code }) => [tool, status, error_code]);

  it('are called for an answer, and shown in all representations of the round', async () => {
    const url = stack.site.page(
      answerWith('<html><head><title>Rates</title></head><body><p>The rate is 3.5 percent.</p></body></html>'),
    );
    stack.model.behave(
      calling(
        [
          [call('knowledge_search', { query: 'fee of early repayment' }), call('web_fetch', { url })],
          call('math_evaluate', { expression: '1200 * 3.5 / 100' }),
        ],
        'Early repayment costs a fee of one percent [1]. It comes to 42.',
      ),
    );
    const events = await collect(await openChatStream(ada, { agent_id: agentId, message: `What is it by ${url}?` }));
    expect([...new Set(events.map(({ event }) => event))]).deep.equal(['token', 'done']);
    const answer = chatMessageSchema.parse(events.at(-1)?.data);
    const tokens = events.slice(0, -1).map(({ data }) => (data as { t: string }).t);
    expect(tokens.join('')).equal(answer.reply);
    expect(answer.reply).equal('Early repayment costs a fee of one percent [1]. It comes to 42.');
    expect(answer.citations.map(({ document_id }) => document_id)).deep.equal([terms]);
    expect(outcomes(answer)).deep.equal([
      ['knowledge.search', 'ok', null],
      ['web.fetch', 'ok', null],
      ['math.evaluate', 'ok', null],
    ]);
    expect(answer.tool_calls[1]?.result_preview).match(/The rate is 3\.5 percent\./);
    expect(answer.tool_calls[2]).deep.include({
      arguments: { expression: '1200 * 3.5 / 100' },
      result_preview: '42',
      result_characters: 2,
    });

    const replayed = await collect(readEvents(await ada.raw(`/chat/${answer.chat_id}/stream`)));
    expect(replayed).deep.equal(events);
    const history = chatHistorySchema.parse((await ada.get(`/chat/${answer.chat_id}`, 200)).body);
    expect(history.messages.map(({ tool_calls }) => tool_calls)).deep.equal([undefined, answer.tool_calls]);
    const exported = await (await ada.raw(`/chat/${answer.chat_id}/export?format=json`)).json();
    expect((exported as { turns: object[] }).turns[1]).deep.include({ tool_calls: answer.tool_calls });
    const markdown = await (await ada.raw(`/chat/${answer.chat_id}/export`)).text();
    expect(markdown).include('## Assistant\n\n*Called knowledge.search, web.fetch, math.evaluate.*\n\nEarly repayment');
    const { body } = await ada.get('/chat?mine=true&limit=1', 200);
    const [chat] = (body as { items: { input_tokens: number; completion_tokens: number }[] }).items;
    expect(chat).include({ input_tokens: 360, completion_tokens: 21 });
  });

  it('find passages, numbered after those of the prompt, which can be cited', async () => {
    const zebras = await anIngestedDocument(ada, 'Zebras', 'Zebras graze on the plains of the east in large herds.');
    stack.model.behave(
      calling([call('knowledge_search', { query: 'zebras graze plains' })], (request) => {
        const numbers = Array.from(
          resultsIn(request)
            .join('\n')
            .matchAll(/<<[a-z0-9]{16} (\d+) \| Zebras/g),
          ([, n]) => n,
        );
        return `Zebras graze on the plains in large herds [${numbers[0]}]. Early repayment costs one percent [1].`;
      }),
    );
    const message = 'What is the fee of early repayment?';
    const answer = await send(message, { exclude_document_ids: [] });
    expect(answer.reply).equal('Zebras graze on the plains in large herds [1]. Early repayment costs one percent [2].');
    expect(answer.citations.map(({ document_id }) => document_id)).deep.equal([zebras, terms]);
    expect(told()[0]).include(`of document ${zebras}.`);
    expect(answer.tool_calls[0]?.result_preview)
      .match(/^\d+ passages of [0-9a-f-]{36}/)
      .and.not.include('Zebras');
  });

  it('read a document in parts, from its beginning', async () => {
    const paragraphs = Array.from(
      { length: 60 },
      (_, n) => `Clause ${n + 1}. ${'The borrower pays the lender back. '.repeat(8)}`,
    );
    const contract = await anIngestedDocument(ada, 'Contract', paragraphs.join('\n\n'));
    const read = (part: number) => call('knowledge_read', { document_id: contract, part });
    stack.model.behave(calling([[read(1), read(2), read(99)]], 'The borrower pays the lender back [1].'));
    const answer = await send('What does the contract say?', { include_document_ids: [contract] });
    expect(outcomes(answer)).deep.equal([
      ['knowledge.read', 'ok', null],
      ['knowledge.read', 'ok', null],
      ['knowledge.read', 'error', 'tool_arguments_invalid'],
    ]);
    expect(told()[0])
      .include('Clause 1.')
      .and.match(/This is part 1 of \d+ of document/);
    expect(told()[1]).not.include('Clause 1.');
    expect(answer.citations.map(({ document_id }) => document_id)).deep.equal([contract]);
  });

  it('neither find nor read unreadable documents or those that the chat excludes', async () => {
    const eve = await stack.signUp('Eve');
    const foreign = await anIngestedDocument(eve, 'Foreign', 'The vault of the other bank opens at noon.');
    const searched = call('knowledge_search', { query: 'When does the vault of the other bank open?' });
    const ids = [foreign, terms, terms.toUpperCase(), 'no-id', '00000000-0000-7000-8000-000000000000'];
    stack.model.behave(calling([[searched, ...ids.map((document_id) => call('knowledge_read', { document_id }))]]));
    const answer = await send('When does the vault open?', { exclude_document_ids: [terms] });
    expect(outcomes(answer).slice(1)).deep.equal(Array(5).fill(['knowledge.read', 'error', 'document_not_found']));
    expect(JSON.stringify([stack.model.requests, answer])).not.match(/noon|one percent/);
  });

  it('do not include those over documents if the chat uses none', async () => {
    stack.model.behave(calling([]));
    await send('Hello?', { enable_rag: false });
    const names = lastRequest().tools?.map((tool) => tool.function.name);
    expect(names).deep.equal(['web_fetch', 'http_request', 'time_now', 'math_evaluate']);
  });

  it('are only those that the organization can use now', async () => {
    stack.model.behave(calling([call('web_search', { query: 'loans' })]));
    const unconnected = await send('Look for loans!', { enable_rag: false });
    expect(outcomes(unconnected)).deep.equal(
      [['web.search', 'refused', 'unknown_tool']].map(([, ...rest]) => ['web_search', ...rest]),
    );
    await ada.post('/agents/tools/brave_search/connection', { api_key: stack.brave.newKey() }, 204);
    const url = stack.site.page(answerWith('A page about loans.', { 'content-type': 'text/plain' }));
    stack.brave.find([{ title: 'Loans', url, description: `See also ${url}/elsewhere` }]);
    stack.model.behave(
      calling(
        [
          call('web_search', { query: 'loans' }),
          [call('web_fetch', { url }), call('web_fetch', { url: `${url}/elsewhere` })],
        ],
        `It is at ${url}, not at ${url}?d=secret.`,
      ),
    );
    const answer = await send('Look for loans!', { enable_rag: false });
    expect(outcomes(answer)).deep.equal([
      ['web.search', 'ok', null],
      ['web.fetch', 'ok', null],
      ['web.fetch', 'refused', 'untrusted_argument'],
    ]);
    expect(answer.reply).equal(`It is at ${url}, not at (link removed).`);
  });

  it('are not offered for an agent without tools', async () => {
    stack.model.behave(calling([]));
    const plain = await aPublishedAgent(ada);
    await ask(ada, { agent_id: plain, message: 'Hello?' }, 201);
    expect(lastRequest()).not.property('tools');
  });

  it('do not read a page with an address from the model, a page that is too large, or a missing one', async () => {
    const hidden = stack.site.page(answerWith('secret'));
    const huge = stack.site.page(answerWith('x'.repeat(10_000_000)));
    const missing = stack.site.page(answerWith('', {}, 404));
    const inside = 'http://127.0.0.1:1/';
    await anIngestedDocument(ada, 'Links', `The page about zebra loans is at ${hidden}.`);
    const urls = [hidden, `${huge}?d=1`, huge, missing, inside];
    stack.model.behave(calling([urls.map((url) => call('web_fetch', { url }))]));
    const before = stack.site.requests.length;
    const answer = await send(`What is at ${huge} or ${missing} or ${inside} about zebra loans?`);
    expect(outcomes(answer).map(([, , code]) => code)).deep.equal([
      'untrusted_argument',
      'untrusted_argument',
      'payload_too_large',
      'url_unreachable',
      'url_not_allowed',
    ]);
    const paths = stack.site.requests.slice(before).map(({ path }) => path);
    expect(paths.sort()).deep.equal([huge, missing].map((url) => new URL(url).pathname).sort());
  });

  it('send requests to allowed services only', async () => {
    const json = stack.site.page(answerWith('{"rate":3.5}', { 'content-type': 'application/json' }));
    const elsewhere = stack.site.page(redirectTo(`${stack.brave.baseUrl}/res/v1/web/search`));
    const picture = stack.site.page(answerWith('PNG', { 'content-type': 'image/png' }));
    const urls = [`${json}?of=loans`, elsewhere, picture, `${stack.brave.baseUrl}/`, 'file:///etc/passwd'];
    stack.model.behave(calling([urls.map((url) => call('http_request', { url }))]));
    const asked = stack.brave.calls.length;
    const answer = await send('What is the rate?', { enable_rag: false });
    expect(outcomes(answer).map(([, , code]) => code)).deep.equal([
      null,
      'url_not_allowed',
      'unsupported_format',
      'url_not_allowed',
      'url_not_allowed',
    ]);
    expect(told()[0]).include('{"rate":3.5}');
    expect(stack.brave.calls.length).equal(asked);
  });

  it('end when the model only calls tools', async () => {
    let n = 0;
    stack.model.behave(({ tools }) => {
      n += 1;
      const calls = [call('math_evaluate', { expression: `${n}` })];
      return tools ? { kind: 'call', calls, text: 'One more.' } : { kind: 'answer', text: 'Enough.' };
    });
    const { reply, tool_calls } = await send('Count!', { enable_rag: false });
    expect(reply).equal('Enough.');
    expect(tool_calls).length(6);
  });

  it('leave nothing in the round if the answer fails after them', async () => {
    stack.model.behave(({ messages }) =>
      messages.at(-1)?.role === 'tool' ? { kind: 'status', status: 500 } : { kind: 'call', calls: [call('time_now')] },
    );
    const { body } = await ada.post('/chat', { agent_id: agentId, message: 'Time?', enable_rag: false }, 503);
    expect((body as { code: string }).code).equal('model_unavailable');
    const [newest] = ((await ada.get('/chat?mine=true&limit=1', 200)).body as { items: { id: string }[] }).items;
    const history = chatHistorySchema.parse((await ada.get(`/chat/${newest?.id}`, 200)).body);
    expect(history.messages.map(({ role }) => role)).deep.equal(['user']);
    stack.model.behave(calling([call('time_now', { time_zone: 'Europe/Berlin' })], 'It is late.'));
    const again = await ask(ada, { chat_id: newest?.id, message: 'Time?', enable_rag: false }, 200);
    expect(outcomes(again)).deep.equal([['time.now', 'ok', null]]);
  });
});
