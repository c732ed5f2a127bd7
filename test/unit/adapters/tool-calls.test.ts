import { expect } from 'chai';
import { createChatModel, createToolCallAssembler } from '#src/adapters/models/chat-model.ts';
import { createModelCapabilityLearner } from '#src/adapters/models/model-capabilities.ts';
import type { ChatModel, ModelRequest } from '#src/ports/models.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { type ScriptedModel, startScriptedModel } from '#test/support/scripted-model.ts';

describe('calls of tools by a chat model', () => {
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
    model: 'm',
    messages: [{ role: 'user', content: 'Look!' }],
    temperature: 0.3,
    maxTokens: 50,
    tools: [{ name: 'knowledge_search', description: 'Finds passages.', parameters }],
    signal: new AbortController().signal,
    ...changes,
  });
  const stream = (changes?: Partial<ModelRequest>) => chatModel.stream(request(changes), () => undefined);

  it('are offered to the model, and read from streams and whole replies', async () => {
    const calls = [
      { name: 'knowledge_search', args: { query: 'the fee of a loan' } },
      { name: 'knowledge_search', args: { query: 'Ünïcode 😀' } },
    ];
    server.behave(() => ({ kind: 'call', calls, text: 'I look.' }));
    const expected = calls.map(({ name, args }) => ({ name, arguments: JSON.stringify(args) }));
    for (const reply of [await stream(), await chatModel.complete(request())]) {
      expect(reply).property('text', 'I look.');
      expect(reply.toolCalls).deep.equal(expected);
      expect(reply.usage).property('inputTokens', 120);
    }
    expect(server.requests[0]?.tools).deep.equal([
      { type: 'function', function: { name: 'knowledge_search', description: 'Finds passages.', parameters } },
    ]);
    expect(server.requests[0]?.tool_choice).equal('auto');
  });

  it('may come without text', async () => {
    server.behave(() => ({ kind: 'call', calls: [{ name: 'time_now', args: {} }] }));
    expect(await stream()).deep.include({ text: '', toolCalls: [{ name: 'time_now', arguments: '{}' }] });
  });

  it('are sent with their results in the format of Chat Completions', async () => {
    server.behave(() => ({ kind: 'answer', text: 'One percent.' }));
    const call = { id: 'call00001', name: 'knowledge_search', arguments: '{"query":"fee"}' };
    await stream({
      messages: [
        { role: 'user', content: 'Look!' },
        { role: 'assistant', content: '', toolCalls: [call] },
        { role: 'tool', toolCallId: 'call00001', content: 'The fee is 1 %.' },
      ],
      mayCall: false,
    });
    const [asked] = server.requests;
    expect(asked?.messages.slice(1)).deep.equal([
      {
        role: 'assistant',
        content: '',
        tool_calls: [
          { id: 'call00001', type: 'function', function: { name: 'knowledge_search', arguments: '{"query":"fee"}' } },
        ],
      },
      { role: 'tool', tool_call_id: 'call00001', content: 'The fee is 1 %.' },
    ]);
    expect(asked).not.property('tools');
  });

  it('are dropped if they were not allowed', async () => {
    server.behave(() => ({ kind: 'call', calls: [{ name: 'time_now', args: {} }], text: 'It is late.' }));
    expect(await stream({ mayCall: false })).not.property('toolCalls');
    server.behave(() => ({ kind: 'call', calls: [{ name: 'time_now', args: {} }] }));
    expect(await appErrorCode(stream({ tools: [] }))).equal('model_response_invalid');
  });

  it('are kept although no more were allowed if the reply has no text', async () => {
    server.behave(() => ({ kind: 'call', calls: [{ name: 'time_now', args: {} }] }));
    const { text, toolCalls } = await stream({ mayCall: false });
    expect({ text, toolCalls }).deep.equal({ text: '', toolCalls: [{ name: 'time_now', arguments: '{}' }] });
  });

  it('are read with any finish_reason', async () => {
    const piece = (delta: object, finish_reason: string | null) =>
      `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason }] })}\n\n`;
    const call = { index: 0, id: 'a', function: { name: 'time_now', arguments: '{}' } };
    server.behave(() => ({
      kind: 'raw',
      body: `${piece({ tool_calls: [call] }, 'stop')}data: [DONE]\n\n`,
      ends: true,
    }));
    expect((await stream()).toolCalls).length(1);
    server.behave(() => ({ kind: 'raw', body: piece({ tool_calls: [call] }, null), ends: true }));
    expect(await appErrorCode(stream())).equal('model_response_invalid');
  });

  for (const [status, message] of [
    [400, 'registry.ollama.ai/library/gemma:2b does not support tools'],
    [400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'],
    [400, 'Function calling is not enabled for this model'],
    [400, '`tool calling` is not supported with this model'],
    [400, 'tools is not supported in this model. For a list of supported models, refer to the documentation.'],
    [400, 'Unsupported parameter: tools'],
  ] as const) {
    it(`are no longer offered after: ${message}`, async () => {
      server.behave(({ tools }) => (tools ? { kind: 'status', status, message } : { kind: 'answer', text: 'Well.' }));
      expect((await stream()).text).equal('Well.');
      await chatModel.complete(request());
      expect(server.requests.map(({ tools }) => tools !== undefined)).deep.equal([true, false, false]);
    });
  }

  for (const [status, message] of [
    [404, 'No endpoints found that support tool use.'],
    [500, 'tools param requires --jinja flag'],
  ] as const) {
    it(`are left out of only one request after ${status}: ${message}`, async () => {
      server.behave(({ tools }) => (tools ? { kind: 'status', status, message } : { kind: 'answer', text: 'Well.' }));
      expect((await stream()).text).equal('Well.');
      await chatModel.complete(request());
      expect(server.requests.map(({ tools }) => tools !== undefined)).deep.equal([true, false, true, false]);
    });
  }

  it('are offered again after ten minutes, and the log names the model', async () => {
    const warned: unknown[] = [];
    let minutes = 0;
    const logger = { warn: (told: unknown) => warned.push(told) };
    const capabilities = createModelCapabilityLearner({ logger, nowMs: () => minutes * 60_000 });
    const forgetful = createChatModel({ baseUrl: server.baseUrl, apiKey: 'key' }, undefined, capabilities);
    const message = 'Invalid prompt: "function calling is not supported"';
    server.behave(({ tools }) =>
      tools ? { kind: 'status', status: 400, message } : { kind: 'answer', text: 'Well.' },
    );
    for (minutes of [0, 9, 11]) await forgetful.complete(request());
    expect(server.requests.map(({ tools }) => tools !== undefined)).deep.equal([true, false, false, true, false]);
    expect(warned).deep.equal([{ model: 'm' }, { model: 'm' }]);
  });

  for (const [status, message] of [
    [400, "Invalid schema for function 'knowledge_search': In context=(), 'required' is required."],
    [400, 'The messages do not fit.'],
    [500, 'as scripted'],
  ] as const) {
    it(`are still offered after: ${message}`, async () => {
      server.behave(() => ({ kind: 'status', status, message }));
      await appErrorCode(stream());
      expect(server.requests).length(1);
    });
  }

  it('stay offered if the service rejects earlier calls without them', async () => {
    const message = "This provider doesn't support tool calling without `tools=` param specified.";
    server.behave(({ tools }) =>
      tools ? { kind: 'answer', text: 'Well.' } : { kind: 'status', status: 400, message },
    );
    expect((await stream({ mayCall: false })).text).equal('Well.');
    expect(server.requests.map(({ tool_choice }) => tool_choice)).deep.equal([undefined, 'none']);
  });

  describe('in streams', () => {
    const read = (...pieces: unknown[]) => {
      const called = createToolCallAssembler();
      for (const piece of pieces) called.add([piece]);
      return called.calls();
    };
    const search = (query: string) => ({ name: 'search', arguments: `{"q":"${query}"}` });

    it('are told apart by their index or their id', () => {
      const expected = [search('a'), search('b')];
      const [a, b] = expected;
      expect(read({ index: 0, function: a }, { index: 1, function: b })).deep.equal(expected);
      expect(read({ id: 'x', function: a }, { id: 'y', function: b })).deep.equal(expected);
      expect(read({ index: 0, id: 'x', function: a }, { index: 0, id: 'y', function: b })).deep.equal(expected);
      expect(read({ function: a }, { function: b })).deep.equal(expected);
      expect(read({ index: 0, id: 'x', function: a }, { index: 1, id: 'x', function: b })).deep.equal(expected);
    });

    it('may have names in pieces, or the name repeated in each piece', () => {
      const pieces = [{ name: 'sea' }, { name: 'rch', arguments: '{"q":' }, { arguments: '"a"}' }];
      expect(read(...pieces.map((piece) => ({ index: 0, function: piece })))).deep.equal([search('a')]);
      const same = [
        { name: 'search', arguments: '{"q":' },
        { name: 'search', arguments: '"a"}' },
      ];
      expect(read(...same.map((piece) => ({ index: 0, id: 'x', function: piece })))).deep.equal([search('a')]);
    });

    it('may have arguments as an object, or none', () => {
      const [call] = read({ index: 0, function: { name: 'search', arguments: { q: 'a' } } });
      expect(call).deep.equal(search('a'));
      expect(read({ function: { name: 'now', arguments: null } })).deep.equal([{ name: 'now', arguments: '' }]);
    });

    it('may begin with a null function', () => {
      const first = { index: 0, id: 'x', type: 'function', function: null };
      expect(read(first, { index: 0, function: search('a') })).deep.equal([search('a')]);
      expect(read({ index: 0, id: 'x' }, { index: 0, function: search('a') })).deep.equal([search('a')]);
    });

    for (const [what, piece, expected] of [
      ['no object', 7, { name: '', arguments: '' }],
      ['no function', { index: 0, id: 'x' }, { name: '', arguments: '' }],
      ['no name', { function: { arguments: '{}' } }, { name: '', arguments: '{}' }],
      ['a blank name', { function: { name: ' ', arguments: '{}' } }, { name: '', arguments: '{}' }],
      ['a name that is no text', { function: { name: 7 } }, { name: '', arguments: '' }],
      ['arguments that are a list', { function: { name: 'a', arguments: [1] } }, { name: 'a', arguments: '[1]' }],
      ['arguments that are a number', { function: { name: 'a', arguments: 7 } }, { name: 'a', arguments: '7' }],
    ] as const) {
      it(`are kept without a name so that only they are rejected: ${what}`, () => {
        expect(read(piece)).deep.equal([expected]);
        const sound = { index: 1, id: 'y', function: search('a') };
        expect(read(piece, sound).at(-1)).deep.equal(search('a'));
      });
    }

    it('are truncated above the limits of names and arguments', () => {
      const args = 'x'.repeat(1_000_000);
      const [call] = read({ index: 0, function: { name: 'n'.repeat(5_000), arguments: args } });
      expect(call).deep.equal({ name: 'n'.repeat(200), arguments: 'x'.repeat(200_000) });
      const half = { index: 0, function: { arguments: 'x'.repeat(150_000) } };
      expect(read({ index: 0, function: { name: 'a' } }, half, half)[0]?.arguments).length(200_000);
    });

    it('may be a single object instead of a list', () => {
      const called = createToolCallAssembler();
      called.add({ function: search('a') });
      expect(called.calls()).deep.equal([search('a')]);
    });

    const megabyte = { index: 0, function: { name: 'search', arguments: 'x'.repeat(1_000_000) } };
    for (const [what, pieces] of [
      ['arguments', Array.from({ length: 5 }, () => megabyte)],
      ['names', Array.from({ length: 5 }, () => ({ index: 0, function: { name: 'x'.repeat(1_000_000) } }))],
      ['calls', Array.from({ length: 65 }, (_, index) => ({ index, function: { name: 'search' } }))],
    ] as const) {
      it(`are rejected beyond the limits: ${what}`, async () => {
        expect(await appErrorCode(Promise.resolve().then(() => read(...pieces)))).equal('model_response_invalid');
      });
    }
  });
});
