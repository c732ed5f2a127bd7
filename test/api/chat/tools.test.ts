import { expect } from 'chai';
import { chatHistorySchema } from '#src/modules/chat/chat.schema.ts';
import { anIngestedDocument, aPublishedAgent, ask, type ChatMessage, streamAnswer } from '#test/support/builders.ts';
import { type Member, readEvents } from '#test/support/client.ts';
import { collect } from '#test/support/collect.ts';
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
  messages.filter(({ role }) => role === 'tool').map(({ content }) => content);
const outcomes = ({ tool_calls }: ChatMessage) =>
  tool_calls.map(({ tool, status, error_code }) => [tool, status, error_code]);
const codes = ({ tool_calls }: ChatMessage) => tool_calls.map(({ error_code }) => error_code);
const cited = ({ citations }: ChatMessage) => citations.map(({ document_id }) => document_id);

describe('tools in a chat', () => {
  let stack: ScriptedStack;
  let ada: Member;
  let agentId: string;
  let terms: string;

  before(async () => {
    stack = await scriptedStack();
    ada = await stack.signUp('Ada');
    const ofService = ['knowledge.search', 'knowledge.read', 'time.now', 'math.evaluate'];
    const enabled_tools = [...ofService, 'web.fetch', 'web.search', 'http.request'];
    agentId = await aPublishedAgent(ada, { enabled_tools });
    terms = await anIngestedDocument(ada, 'Terms', 'Early repayment of the loan costs a fee of one percent.');
  });

  const lastRequest = () => stack.model.requests.at(-1) as ChatRequest;
  const told = () => resultsIn(lastRequest());
  const send = (message: string, fields: object = {}): Promise<ChatMessage> =>
    ask(ada, { agent_id: agentId, message, ...fields }, 201);
  const withoutDocuments = { enable_rag: false };

  it('are called for an answer, and their calls appear in all representations of the round', async () => {
    const page = '<html><head><title>Rates</title></head><body><p>The rate is 3.5 percent.</p></body></html>';
    const url = stack.site.page(answerWith(page));
    const expression = '1200 * 3.5 / 100';
    const reply = 'Early repayment costs a fee of one percent [1]. It comes to 42.';
    const both = [call('knowledge_search', { query: 'fee of early repayment' }), call('web_fetch', { url })];
    stack.model.behave(calling([both, call('math_evaluate', { expression })], reply));
    const body = { agent_id: agentId, message: `What is it by ${url}?` };
    const { events, tokens, answer } = await streamAnswer(ada, body);
    expect([...new Set(events.map(({ event }) => event))]).deep.equal(['token', 'done']);
    expect([tokens, answer.reply]).deep.equal([reply, reply]);
    expect(cited(answer)).deep.equal([terms]);
    expect(codes(answer)).deep.equal([null, null, null]);
    expect(answer.tool_calls[1]?.result_preview).match(/The rate is 3\.5 percent\./);
    const sum = { arguments: { expression }, result_preview: '42', result_characters: 2 };
    expect(answer.tool_calls[2]).deep.include(sum);

    const path = `/chat/${answer.chat_id}`;
    expect(await collect(readEvents(await ada.raw(`${path}/stream`)))).deep.equal(events);
    const { messages } = chatHistorySchema.parse((await ada.get(path, 200)).body);
    expect(messages.map(({ tool_calls }) => tool_calls)).deep.equal([undefined, answer.tool_calls]);
    const { turns } = Object((await ada.get(`${path}/export?format=json`, 200)).body);
    expect(turns[1]).deep.include({ tool_calls: answer.tool_calls });
    const called = '## Assistant\n\n*Called knowledge.search, web.fetch, math.evaluate.*\n\nEarly repayment';
    expect((await ada.get(`${path}/export`, 200)).body).include(called);
    const logged = Object((await ada.get(`/logs/conversations/${answer.chat_id}/rounds/1`, 200)).body);
    expect(logged.round.tool_calls).deep.equal(answer.tool_calls);
    const [chat] = Object((await ada.get('/chat?mine=true&limit=1', 200)).body).items;
    expect(chat).include({ input_tokens: 360, completion_tokens: 21 });
  });

  it('number the passages that they find after those of the prompt, so that an answer can cite both', async () => {
    const zebras = await anIngestedDocument(ada, 'Zebras', 'Zebras graze on the plains of the east in large herds.');
    const search = call('knowledge_search', { query: 'zebras graze plains' });
    stack.model.behave(
      calling([search], (request) => {
        const [, number] = /<<[a-z0-9]{16} (\d+) \| Zebras/.exec(resultsIn(request).join('\n')) ?? [];
        return `Zebras graze on the plains in large herds [${number}]. Early repayment costs one percent [1].`;
      }),
    );
    const answer = await send('What is the fee of early repayment?', { exclude_document_ids: [] });
    expect(answer.reply).equal('Zebras graze on the plains in large herds [1]. Early repayment costs one percent [2].');
    expect(cited(answer)).deep.equal([zebras, terms]);
    expect(told()[0]).include(`of document ${zebras}.`);
    const preview = answer.tool_calls[0]?.result_preview;
    expect(preview)
      .match(/^\d+ passages of [0-9a-f-]{36}/)
      .and.not.include('Zebras');
  });

  it('read a long document in several calls, from its beginning', async () => {
    const clause = (_: unknown, n: number) => `Clause ${n + 1}. ${'The borrower pays the lender back. '.repeat(8)}`;
    const contract = await anIngestedDocument(ada, 'Contract', Array.from({ length: 60 }, clause).join('\n\n'));
    const reads = [1, 2, 99].map((part) => call('knowledge_read', { document_id: contract, part }));
    stack.model.behave(calling([reads], 'The borrower pays the lender back [1].'));
    const answer = await send('What does the contract say?', { include_document_ids: [contract] });
    expect(codes(answer)).deep.equal([null, null, 'tool_arguments_invalid']);
    expect(told()[0]).match(/Clause 1\.[\s\S]*This is part 1 of \d+ of document/);
    expect(told()[1]).not.include('Clause 1.');
    expect(cited(answer)).deep.equal([contract]);
  });

  it('neither find nor read documents that the user may not read or that the chat excludes', async () => {
    const eve = await stack.signUp('Eve');
    const foreign = await anIngestedDocument(eve, 'Foreign', 'The vault of the other bank opens at noon.');
    const searched = call('knowledge_search', { query: 'When does the vault of the other bank open?' });
    const ids = [foreign, terms, terms.toUpperCase(), 'no-id', '00000000-0000-7000-8000-000000000000'];
    stack.model.behave(calling([[searched, ...ids.map((document_id) => call('knowledge_read', { document_id }))]]));
    const answer = await send('When does the vault open?', { exclude_document_ids: [terms] });
    expect(outcomes(answer).slice(1)).deep.equal(Array(5).fill(['knowledge.read', 'error', 'document_not_found']));
    expect(JSON.stringify([stack.model.requests, answer])).not.match(/noon|one percent/);
  });

  it('are only those that the agent and the chat enable and that the organization can use', async () => {
    const search = call('web_search', { query: 'loans' });
    stack.model.behave(calling([search]));
    const unconnected = await send('Look for loans!', withoutDocuments);
    expect(outcomes(unconnected)).deep.equal([['web_search', 'refused', 'unknown_tool']]);
    const offered = stack.model.requests[0]?.tools?.map((tool) => tool.function.name);
    expect(offered, 'without documents').members(['web_fetch', 'http_request', 'time_now', 'math_evaluate']);
    await send('Hello?', { agent_id: await aPublishedAgent(ada) });
    expect(lastRequest(), 'of an agent without tools').not.property('tools');
    await ada.post('/agents/tools/brave_search/connection', { api_key: stack.brave.newKey() }, 204);
    const url = stack.site.page(answerWith('A page about loans.', { 'content-type': 'text/plain' }));
    stack.brave.find([{ title: 'Loans', url, description: `See also ${url}/elsewhere` }]);
    const fetches = [url, `${url}/elsewhere`].map((each) => call('web_fetch', { url: each }));
    stack.model.behave(calling([search, fetches], `It is at ${url}, not at ${url}?d=secret.`));
    const answer = await send('Look for loans!', withoutDocuments);
    expect(codes(answer)).deep.equal([null, null, 'untrusted_argument']);
    expect(answer.reply).equal(`It is at ${url}, not at (link removed).`);
  });

  it('fetch no page at an address that the model made up, and none that is too large or missing', async () => {
    const hidden = stack.site.page(answerWith('secret'));
    const huge = stack.site.page(answerWith('x'.repeat(10_000_000)));
    const missing = stack.site.page(answerWith('', {}, 404));
    const inside = 'http://127.0.0.1:1/';
    await anIngestedDocument(ada, 'Links', `The page about zebra loans is at ${hidden}.`);
    const urls = [hidden, `${huge}?d=1`, huge, missing, inside];
    stack.model.behave(calling([urls.map((url) => call('web_fetch', { url }))]));
    const before = stack.site.requests.length;
    const answer = await send(`What is at ${huge} or ${missing} or ${inside} about zebra loans?`);
    const failures = ['untrusted_argument', 'untrusted_argument', 'payload_too_large', 'url_unreachable'];
    expect(codes(answer)).deep.equal([...failures, 'url_not_allowed']);
    const requested = stack.site.requests.slice(before).map(({ path }) => path);
    expect(requested).have.members([huge, missing].map((url) => new URL(url).pathname));
  });

  it('send HTTP requests to allowed services only', async () => {
    const json = stack.site.page(answerWith('{"rate":3.5}', { 'content-type': 'application/json' }));
    const elsewhere = stack.site.page(redirectTo(`${stack.brave.baseUrl}/res/v1/web/search`));
    const picture = stack.site.page(answerWith('PNG', { 'content-type': 'image/png' }));
    const urls = [`${json}?of=loans`, elsewhere, picture, `${stack.brave.baseUrl}/`, 'file:///etc/passwd'];
    stack.model.behave(calling([urls.map((url) => call('http_request', { url }))]));
    const asked = stack.brave.calls.length;
    const answer = await send('What is the rate?', withoutDocuments);
    const refusals = ['url_not_allowed', 'unsupported_format', 'url_not_allowed', 'url_not_allowed'];
    expect(codes(answer)).deep.equal([null, ...refusals]);
    expect(told()[0]).include('{"rate":3.5}');
    expect(stack.brave.calls.length).equal(asked);
  });
});
