import { expect } from 'chai';
import { createChatModel } from '#src/adapters/models/chat-model.ts';
import type { ModelRequest } from '#src/ports/models.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import {
  answerJson,
  type ScriptedAnswer,
  type ScriptedServer,
  startScriptedServer,
} from '#test/support/scripted-server.ts';

describe('a chat model of a provider that deviates from OpenAI', () => {
  let server: ScriptedServer;

  before(async () => {
    server = await startScriptedServer();
  });
  after(() => server.close());

  const request: ModelRequest = {
    model: 'm',
    messages: [{ role: 'user', content: 'Count!' }],
    temperature: 0.3,
    maxTokens: 50,
    signal: new AbortController().signal,
  };
  const chatModel = () => createChatModel({ baseUrl: server.baseUrl, apiKey: 'key' });
  const complete = () => chatModel().complete(request);
  const stream = (onToken: (text: string) => void = () => undefined) => chatModel().stream(request, onToken);

  const whole = (content: unknown, usage?: unknown) => answerJson(200, { choices: [{ message: { content } }], usage });
  const events =
    (...pieces: unknown[]): ScriptedAnswer =>
    (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.end(
        [...pieces.map((piece) => JSON.stringify(piece)), '[DONE]'].map((data) => `data: ${data}\n\n`).join(''),
      );
    };
  const piece = (content: unknown, finish_reason: string | null = null) => ({
    choices: [{ index: 0, delta: { content }, finish_reason }],
  });

  it('joins the text parts of an answer without its reasoning', async () => {
    const parts = [
      { type: 'thinking', thinking: [{ type: 'text', text: 'One, then two.' }] },
      { type: 'text', text: 'One two' },
    ];
    server.answer(whole(parts));
    expect((await complete()).text).equal('One two');
    const pieces: string[] = [];
    server.answer(events(piece(parts), piece(null), piece([{ type: 'text', text: ' three.' }], 'stop')));
    expect((await stream((text) => pieces.push(text))).text).equal('One two three.');
    expect(pieces).deep.equal(['One two', ' three.']);
  });

  it('does not follow redirects, which would send a prompt to another host', async () => {
    const elsewhere = await startScriptedServer();
    for (const status of [301, 302, 303, 307, 308]) {
      server.answer((response) => response.writeHead(status, { location: `${elsewhere.baseUrl}/steal` }).end());
      expect(await appErrorCode(complete()), String(status)).equal('model_rejected');
      expect(await appErrorCode(stream()), String(status)).equal('model_rejected');
    }
    expect(elsewhere.calls).deep.equal([]);
    await elsewhere.close();
  });

  it('rejects an answer with the finish_reason error', async () => {
    server.answer(events(piece('One two'), piece(null, 'error')));
    expect(await appErrorCode(stream())).equal('model_response_invalid');
    server.answer(answerJson(200, { choices: [{ message: { content: 'One' }, finish_reason: 'error' }] }));
    expect(await appErrorCode(complete())).equal('model_response_invalid');
  });

  it('reads the first of several choices', async () => {
    const second = { choices: [{ index: 1, delta: { content: 'another' }, finish_reason: 'stop' }] };
    server.answer(events(second, piece('One', 'stop')));
    expect((await stream()).text).equal('One');
  });

  for (const [what, body] of Object.entries({
    null: null,
    'a number': 7,
    'no choices': { choices: [] },
    'a choice that is none': { choices: [null] },
    'a text that is none': { choices: [{ message: { content: 7 }, delta: { content: 7 }, finish_reason: 'stop' }] },
  })) {
    it(`rejects ${what}`, async () => {
      server.answer(answerJson(200, body));
      expect(await appErrorCode(complete())).equal('model_response_invalid');
      server.answer(events(body));
      expect(await appErrorCode(stream())).equal('model_response_invalid');
    });
  }

  it('ignores events without content', async () => {
    server.answer(events(null, piece('One'), { choices: {} }, piece(' two', 'stop')));
    expect((await stream()).text).equal('One two');
  });

  it('reads invalid token counts as 0', async () => {
    for (const usage of [
      undefined,
      null,
      'much',
      { prompt_tokens: '12', completion_tokens: -1 },
      { prompt_tokens: 1.5 },
      { prompt_tokens: 1e12 },
    ]) {
      server.answer(whole('One', usage));
      expect((await complete()).usage).deep.equal({ inputTokens: 0, cachedInputTokens: 0, completionTokens: 0 });
    }
    server.answer(
      whole('One', { prompt_tokens: 5, completion_tokens: 2, prompt_tokens_details: { cached_tokens: 9 } }),
    );
    expect((await complete()).usage).deep.equal({ inputTokens: 5, cachedInputTokens: 5, completionTokens: 2 });
  });

  it('learns from errors which parameters a model accepts, and keeps to them', async () => {
    server.answer((response, body: Record<string, unknown>) => {
      const refuse = (param: string, message: string) =>
        answerJson(400, { error: { message, type: 'invalid_request_error', param, code: 'unsupported_parameter' } })(
          response,
          body as never,
        );
      if ('max_tokens' in body)
        return refuse(
          'max_tokens',
          "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        );
      if ('temperature' in body)
        return refuse(
          'temperature',
          "Unsupported value: 'temperature' does not support 0.3 with this model. Only the default (1) value is supported.",
        );
      whole('One')(response, body as never);
    });
    const own = chatModel();
    expect((await own.complete(request)).text).equal('One');
    expect(server.calls).length(3);
    expect(server.calls[2]?.body).include({ max_completion_tokens: 50 });
    await own.complete(request);
    expect(server.calls).length(4);

    const fresh = chatModel();
    const [one, other] = await Promise.all([fresh.complete(request), fresh.complete(request)]);
    expect([one.text, other.text], 'of two at once, the second learns nothing new').deep.equal(['One', 'One']);
  });

  it('stops sending seed, JSON schema and response_format after errors about them', async () => {
    const schema = { type: 'object', properties: {} };
    const asked: ModelRequest = { ...request, seed: 7, responseSchema: { name: 'verdict', schema } };
    const refuse = (message: string) => answerJson(400, { error: { message, type: 'invalid_request_error' } });
    server.answer((response, body: { response_format?: { type: string } }) => {
      const refusal = () => {
        if ('seed' in body) return refuse('seed: Extra inputs are not permitted');
        if (body.response_format) return refuse('This response_format type is unavailable now');
        return whole('{}');
      };
      refusal()(response, body as never);
    });
    const own = chatModel();
    expect((await own.complete(asked)).text).equal('{}');
    const types = server.calls.map(
      ({ body }) => (body as { response_format?: { type: string } }).response_format?.type,
    );
    expect(types).deep.equal(['json_schema', 'json_schema', 'json_object', undefined]);
    await own.complete(asked);
    expect(server.calls).length(5);
  });

  it('uses the timeout of the caller', async () => {
    server.answer(() => undefined);
    expect(await appErrorCode(chatModel().complete({ ...request, timeoutMs: 50 }))).equal('model_unavailable');
  });

  it('streams a whole answer if the caller has no timeout', async () => {
    server.answer((response, body) => events(piece('{"score"'), piece(':3}', 'stop'))(response, body));
    const { text } = await chatModel().complete({ ...request, timeoutMs: null });
    expect(text).equal('{"score":3}');
    expect(server.calls[0]?.body).include({ stream: true });
  });

  it('does not retry without response_format if the service never writes JSON', async () => {
    const error = { message: 'response_format is not supported', code: 'unsupported_response_format' };
    server.answer(answerJson(400, { error }));
    const asked = chatModel().complete({ ...request, responseSchema: { name: 'verdict', schema: {} } });
    expect(await appErrorCode(asked)).equal('model_rejected');
    expect(server.calls).length(1);
  });

  it('does not retry errors that say nothing about parameters', async () => {
    const error = {
      message: 'max_tokens is too large: 50',
      type: 'invalid_request_error',
      param: 'max_tokens',
      code: null,
    };
    server.answer(answerJson(400, { error }));
    expect(await appErrorCode(complete())).equal('model_rejected');
    expect(server.calls).length(1);
  });
});
