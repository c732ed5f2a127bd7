import { expect } from 'chai';
import { createChatModel, createToolCallAssembler } from '#src/adapters/models/chat-model.ts';
import { createModelCapabilityLearner } from '#src/adapters/models/model-capabilities.ts';
import type { ChatModel, ModelRequest } from '#src/ports/models.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { type ScriptedModel, startScriptedModel } from '#test/support/scripted-model.ts';

describe('the client of a chat model', () => {
  let server: ScriptedModel;
  let chatModel: ChatModel;
  before(async () => {
    server = await startScriptedModel();
  });
  beforeEach(() => {
    chatModel = createChatModel({ baseUrl: server.baseUrl, apiKey: 'key' });
  });
  after(() => server.close());

  const parameters = { type: 'object', properties: { query: { type: 'string' } } };
  const request = (changes: Partial<ModelRequest> = {}): ModelRequest => ({
    ...{ model: 'm', messages: [{ role: 'user', content: 'Look!' }], temperature: 0.3, maxTokens: 50 },
    tools: [{ name: 'knowledge_search', description: 'Finds passages.', parameters }],
    signal: new AbortController().signal,
    ...changes,
  });
  const stream = (changes?: Partial<ModelRequest>) => chatModel.stream(request(changes), () => undefined);
  const timeNow = { name: 'time_now', args: {} };
  const calls = (text?: string) => server.behave(() => ({ kind: 'call', calls: [timeNow], ...(text && { text }) }));
  /** The model refuses requests with tools (or, with `of`, those without) by this status and message. */
  const refuses = (status: number, message: string, of: 'with' | 'without' = 'with') =>
    server.behave(({ tools }) =>
      (tools !== undefined) === (of === 'with')
        ? { kind: 'status', status, message }
        : { kind: 'answer', text: 'Well.' },
    );
  const offers = () => server.requests.map(({ tools }) => tools !== undefined);

  it('offers tools to the model, and reads tool calls from streams and whole replies', async () => {
    const made = ['the fee of a loan', 'Ünïcode 😀'].map((query) => ({ name: 'knowledge_search', args: { query } }));
    server.behave(() => ({ kind: 'call', calls: made, text: 'I look.' }));
    const toolCalls = made.map(({ name, args }) => ({ name, arguments: JSON.stringify(args) }));
    for (const reply of [await stream(), await chatModel.complete(request())]) {
      expect(reply).deep.include({ text: 'I look.', toolCalls });
      expect(reply.usage).property('inputTokens', 120);
    }
    const description = { name: 'knowledge_search', description: 'Finds passages.', parameters };
    expect(server.requests[0]).deep.include({
      tools: [{ type: 'function', function: description }],
      tool_choice: 'auto',
    });
  });

  it('sends earlier tool calls and their results in the format of Chat Completions', async () => {
    server.behave(() => ({ kind: 'answer', text: 'One percent.' }));
    const called = { name: 'knowledge_search', arguments: '{"query":"fee"}' };
    await stream({
      messages: [
        { role: 'user', content: 'Look!' },
        { role: 'assistant', content: '', toolCalls: [{ id: 'call00001', ...called }] },
        { role: 'tool', toolCallId: 'call00001', content: 'The fee is 1 %.' },
      ],
      mayCall: false,
    });
    const [asked] = server.requests;
    const tool_calls = [{ id: 'call00001', type: 'function', function: called }];
    expect(asked?.messages.slice(1)).deep.equal([
      { role: 'assistant', content: '', tool_calls },
      { role: 'tool', tool_call_id: 'call00001', content: 'The fee is 1 %.' },
    ]);
    expect(asked).not.property('tools');
  });

  it('accepts a reply of tool calls only, and drops tool calls beside a text if none were allowed', async () => {
    const called = { text: '', toolCalls: [{ name: 'time_now', arguments: '{}' }] };
    calls();
    expect(await stream()).deep.include(called);
    expect(await stream({ mayCall: false }), 'there is nothing else to keep').deep.include(called);
    expect(await appErrorCode(stream({ tools: [] }))).equal('model_response_invalid');
    calls('It is late.');
    expect(await stream({ mayCall: false })).not.property('toolCalls');
  });

  it('reads tool calls with any finish_reason, and rejects a stream that ends without one', async () => {
    const call = { index: 0, id: 'a', function: { name: 'time_now', arguments: '{}' } };
    const ends = (finish_reason: string | null) => {
      const choices = [{ index: 0, delta: { tool_calls: [call] }, finish_reason }];
      server.behave(() => ({
        kind: 'raw',
        body: `data: ${JSON.stringify({ choices })}\n\n${finish_reason === null ? '' : 'data: [DONE]\n\n'}`,
        ends: true,
      }));
    };
    ends('stop');
    expect((await stream()).toolCalls).length(1);
    ends(null);
    expect(await appErrorCode(stream())).equal('model_response_invalid');
  });

  it('repeats a rejected request without tools, and offers no more tools to a model that supports none', async () => {
    const never = [true, false, false];
    const once = [true, false, true, false];
    for (const [status, message, expected] of [
      [400, 'registry.ollama.ai/library/gemma:2b does not support tools', never],
      [400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set', never],
      [400, 'Function calling is not enabled for this model', never],
      [400, '`tool calling` is not supported with this model', never],
      [400, 'tools is not supported in this model. For a list of supported models, refer to the docs.', never],
      [400, 'Unsupported parameter: tools', never],
      [404, 'No endpoints found that support tool use.', once],
      [500, 'tools param requires --jinja flag', once],
    ] as const) {
      chatModel = createChatModel({ baseUrl: server.baseUrl, apiKey: 'key' });
      refuses(status, message);
      expect((await stream()).text).equal('Well.');
      await chatModel.complete(request());
      expect(offers(), message).deep.equal(expected);
    }
  });

  it('offers tools again ten minutes after a model rejected them, and names the model in the log', async () => {
    const warned: unknown[] = [];
    let minutes = 0;
    const logger = { warn: (told: unknown) => warned.push(told) };
    const capabilities = createModelCapabilityLearner({ logger, nowMs: () => minutes * 60_000 });
    const forgetful = createChatModel({ baseUrl: server.baseUrl, apiKey: 'key' }, undefined, capabilities);
    refuses(400, 'Invalid prompt: "function calling is not supported"');
    for (minutes of [0, 9, 11]) await forgetful.complete(request());
    expect(offers()).deep.equal([true, false, false, true, false]);
    expect(warned).deep.equal([{ model: 'm' }, { model: 'm' }]);
  });

  it('sends no second request without tools if an error has a cause other than missing tool support', async () => {
    for (const [status, message] of [
      [400, "Invalid schema for function 'knowledge_search': In context=(), 'required' is required."],
      [400, 'The messages do not fit.'],
      [500, 'as scripted'],
    ] as const) {
      server.behave(() => ({ kind: 'status', status, message }));
      await appErrorCode(stream());
      expect(server.requests, message).length(1);
    }
    refuses(400, "This provider doesn't support tool calling without `tools=` param specified.", 'without');
    expect((await stream({ mayCall: false })).text).equal('Well.');
    expect(server.requests.map(({ tool_choice }) => tool_choice)).deep.equal([undefined, 'none']);
  });

  describe('when reading a stream', () => {
    const read = (...pieces: unknown[]) => {
      const called = createToolCallAssembler();
      for (const piece of pieces) called.add([piece]);
      return called.calls();
    };
    const search = (query: string) => ({ name: 'search', arguments: `{"q":"${query}"}` });
    const [a, b] = [search('a'), search('b')] as const;

    const at = (index: number, called: unknown, id?: string) => ({ index, ...(id && { id }), function: called });
    const by = (id: string, called: unknown) => ({ id, function: called });
    const named = (args: unknown) => ({ name: 'search', arguments: args });
    const cases: [what: string, pieces: unknown[], expected: object[]][] = [
      ['by their index', [at(0, a), at(1, b)], [a, b]],
      ['by their id', [by('x', a), by('y', b)], [a, b]],
      ['by their id at one index', [at(0, a, 'x'), at(0, b, 'y')], [a, b]],
      ['by their index under one id', [at(0, a, 'x'), at(1, b, 'x')], [a, b]],
      ['without either', [{ function: a }, { function: b }], [a, b]],
      ['a name in pieces', [at(0, { name: 'sea' }), at(0, { name: 'rch', arguments: a.arguments })], [a]],
      ['the name in each piece', [at(0, named('{"q":'), 'x'), at(0, named('"a"}'), 'x')], [a]],
      ['an object as arguments', [at(0, named({ q: 'a' }))], [a]],
      ['null as arguments', [{ function: named(null) }], [named('')]],
      ['a null function before', [at(0, null, 'x'), at(0, a)], [a]],
      ['no function before', [at(0, undefined, 'x'), at(0, a)], [a]],
    ];
    it('distinguishes tool calls by index or id, and joins the pieces of each call', () => {
      for (const [what, pieces, expected] of cases) expect(read(...pieces), what).deep.equal(expected);
      const single = createToolCallAssembler();
      single.add({ function: a });
      expect(single.calls(), 'a single object instead of a list').deep.equal([a]);
    });

    it('keeps valid tool calls beside a malformed one, and gives a call without a valid name an empty name', () => {
      const none = { name: '', arguments: '' };
      for (const [piece, expected] of [
        [7, none],
        [{ index: 0, id: 'x' }, none],
        [{ function: { arguments: '{}' } }, { name: '', arguments: '{}' }],
        [{ function: { name: ' ', arguments: '{}' } }, { name: '', arguments: '{}' }],
        [{ function: { name: 7 } }, none],
        [{ function: { name: 'a', arguments: [1] } }, { name: 'a', arguments: '[1]' }],
        [{ function: { name: 'a', arguments: 7 } }, { name: 'a', arguments: '7' }],
      ] as const) {
        expect(read(piece, { index: 1, id: 'y', function: a })).deep.equal([expected, a]);
      }
    });

    it('truncates too long names and arguments, and rejects much longer ones and more than 64 tool calls', async () => {
      const long = 'x'.repeat(1_000_000);
      const [call] = read({ index: 0, function: { name: 'n'.repeat(5_000), arguments: long } });
      expect(call).deep.equal({ name: 'n'.repeat(200), arguments: 'x'.repeat(200_000) });
      const half = { index: 0, function: { arguments: 'x'.repeat(150_000) } };
      expect(read({ index: 0, function: { name: 'a' } }, half, half)[0]?.arguments).length(200_000);
      for (const pieces of [
        Array.from({ length: 5 }, () => ({ index: 0, function: { name: 'search', arguments: long } })),
        Array.from({ length: 5 }, () => ({ index: 0, function: { name: long } })),
        Array.from({ length: 65 }, (_, index) => ({ index, function: { name: 'search' } })),
      ]) {
        expect(await appErrorCode((async () => read(...pieces))())).equal('model_response_invalid');
      }
    });
  });
});
