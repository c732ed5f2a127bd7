import { expect } from 'chai';
import { createChatModel, createStreamTimeout, type StreamTimeout } from '#src/adapters/models/chat-model.ts';
import { AppError } from '#src/errors.ts';
import type { ChatModel, ModelRequest } from '#src/ports/models.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { type ScriptedModel, startScriptedModel } from '#test/support/scripted-model.ts';
import { type ScriptedAnswer, type ScriptedServer, startScriptedServer } from '#test/support/scripted-server.ts';

describe('createChatModel', () => {
  let server: ScriptedModel;
  let chatModel: ChatModel;

  before(async () => {
    server = await startScriptedModel();
    chatModel = createChatModel({ baseUrl: server.baseUrl, apiKey: 'key' });
  });
  beforeEach(() => server.behave(() => ({ kind: 'answer', text: 'One two three.' })));
  after(() => server.close());

  const request = (signal = new AbortController().signal): ModelRequest => ({
    model: 'm',
    messages: [{ role: 'user', content: 'Count!' }],
    temperature: 0.3,
    maxTokens: 50,
    signal,
  });
  const usage = { inputTokens: 120, cachedInputTokens: 20, completionTokens: 7 };

  it('streams the pieces and returns the whole reply with its usage', async () => {
    const pieces: string[] = [];
    const reply = await chatModel.stream(request(), (piece) => pieces.push(piece));
    expect(pieces).deep.equal(['One', ' two', ' three.']);
    expect(reply).deep.equal({ text: 'One two three.', model: 'm', usage });
  });

  it('returns a whole reply without a stream', async () => {
    expect(await chatModel.complete(request())).deep.equal({ text: 'One two three.', model: 'm', usage });
  });

  it('sends model, temperature and token limit', async () => {
    await chatModel.complete(request());
    expect(server.requests[0]).include({ model: 'm', temperature: 0.3, max_tokens: 50 });
  });

  for (const [status, code] of [
    [401, 'model_not_configured'],
    [404, 'model_not_configured'],
    [400, 'model_rejected'],
    [429, 'model_unavailable'],
    [500, 'model_unavailable'],
  ] as const) {
    it(`maps the status ${status} to ${code} without a retry`, async () => {
      server.behave(() => ({ kind: 'status', status }));
      expect(await appErrorCode(chatModel.stream(request(), () => undefined))).equal(code);
      expect(await appErrorCode(chatModel.complete(request()))).equal(code);
      expect(server.requests).length(2);
    });
  }

  it('passes on Retry-After', async () => {
    server.behave(() => ({ kind: 'status', status: 429, retryAfterSeconds: 9 }));
    const error = await chatModel.complete(request()).catch((failure: unknown) => failure);
    expect(error).instanceOf(AppError).property('retryAfterSeconds', 9);
  });

  for (const truncatedBy of ['length', 'content_filter'] as const) {
    it(`marks an answer that was truncated by ${truncatedBy}`, async () => {
      const said = { content: 'One two' };
      const choice = { index: 0, message: said, delta: said, finish_reason: truncatedBy };
      const cut = await startScriptedServer();
      cut.answer((response, { stream }: { stream?: boolean }) => {
        const answer = JSON.stringify({ choices: [choice] });
        response.writeHead(200, { 'content-type': stream ? 'text/event-stream' : 'application/json' });
        response.end(stream ? `data: ${answer}\n\ndata: [DONE]\n\n` : answer);
      });
      const model = createChatModel({ baseUrl: cut.baseUrl, apiKey: 'key' });
      expect(await model.stream(request(), () => undefined)).include({ text: 'One two', truncatedBy });
      expect(await model.complete(request())).include({ text: 'One two', truncatedBy });
      await cut.close();
    });
  }

  it('rejects a stream that ends without a finish_reason', async () => {
    server.behave(() => ({ kind: 'break_off', text: 'One two' }));
    const code = await appErrorCode(chatModel.stream(request(), () => undefined));
    expect(code).oneOf(['model_unavailable', 'model_response_invalid']);
  });

  it('rejects an empty answer', async () => {
    server.behave(() => ({ kind: 'answer', text: ' ' }));
    expect(await appErrorCode(chatModel.stream(request(), () => undefined))).equal('model_response_invalid');
    expect(await appErrorCode(chatModel.complete(request()))).equal('model_response_invalid');
  });

  it('removes characters that Postgres cannot store, and joins surrogate pairs that are split', async () => {
    server.behave(() => ({ kind: 'answer', text: ['a\0b', ' \ud83d', '\ude00', '\0', ' \udc00', '.', '\ud83d'] }));
    const pieces: string[] = [];
    const { text } = await chatModel.stream(request(), (piece) => pieces.push(piece));
    expect(text).equal('ab 😀 \ufffd.\ufffd');
    expect(pieces).deep.equal(['ab', ' ', '😀', ' \ufffd', '.', '\ufffd']);
    expect((await chatModel.complete(request())).text).equal(text);
  });

  it('aborts with the reason of the signal', async () => {
    const never = Promise.withResolvers<void>();
    server.behave(() => ({ kind: 'answer', text: 'One two three.', until: never.promise }));
    const stop = new AbortController();
    const reason = new Error('enough');
    const outcome = chatModel.stream(request(stop.signal), () => stop.abort(reason)).catch((error: unknown) => error);
    expect(await outcome).equal(reason);
    never.resolve();
  });

  describe('with a slow stream', () => {
    const open: ScriptedAnswer = (response) => response.writeHead(200, { 'content-type': 'text/event-stream' });
    const chunk = (delta: object, finish_reason: string | null) =>
      `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason }] })}\n\n`;
    let waiting: ScriptedServer;

    before(async () => {
      waiting = await startScriptedServer();
    });
    after(() => waiting.close());

    const stream = (watch: () => StreamTimeout) =>
      createChatModel({ baseUrl: waiting.baseUrl, apiKey: 'key' }, watch).stream(request(), () => undefined);

    it('does not time out while the service sends comments', async () => {
      const isHeard = [Promise.withResolvers<void>(), Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      let count = 0;
      const silence = { ...createStreamTimeout(60_000, 60_000), heard: () => isHeard[count++]?.resolve() };
      waiting.answer(async (response, body) => {
        open(response, body);
        response.flushHeaders();
        await isHeard[0]?.promise;
        response.write(': waiting\n\n');
        await isHeard[1]?.promise;
        response.write(': waiting\n\n');
        await isHeard[2]?.promise;
        response.end(`${chunk({ content: 'One' }, null)}${chunk({}, 'stop')}data: [DONE]\n\n`);
      });
      expect((await stream(() => silence)).text).equal('One');
    });

    it('throws model_unavailable after a silence', async () => {
      for (const begin of [() => undefined, open]) {
        waiting.answer(begin);
        expect(await appErrorCode(stream(() => createStreamTimeout(20, 60_000)))).equal('model_unavailable');
      }
    });

    for (const [type, code] of [
      ['server_error', 'model_unavailable'],
      ['invalid_request_error', 'model_rejected'],
    ]) {
      it(`maps the error ${type} in a stream to ${code}`, async () => {
        waiting.answer((response, body) => {
          open(response, body);
          response.end(`: waiting\n\ndata: ${JSON.stringify({ error: { message: 'No.', type } })}\n\n`);
        });
        expect(await appErrorCode(stream(() => createStreamTimeout(60_000, 60_000)))).equal(code);
      });
    }
  });
});
