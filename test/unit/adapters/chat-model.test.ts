import { expect } from 'chai';
import { createChatModel, createStreamTimeout, type StreamTimeout } from '#src/adapters/models/chat-model.ts';
import { AppError } from '#src/errors.ts';
import type { ModelRequest } from '#src/ports/models.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { type ScriptedModel, startScriptedModel } from '#test/support/scripted-model.ts';
import {
  answerJson,
  type ScriptedAnswer,
  type ScriptedServer,
  startScriptedServer,
} from '#test/support/scripted-server.ts';

const request: ModelRequest = {
  ...{ model: 'm', messages: [{ role: 'user', content: 'Count!' }], temperature: 0.3, maxTokens: 50 },
  signal: new AbortController().signal,
};
const open: ScriptedAnswer = (response) => response.writeHead(200, { 'content-type': 'text/event-stream' });
const eventsOf = (...pieces: unknown[]) =>
  [...pieces.map((piece) => JSON.stringify(piece)), '[DONE]'].map((data) => `data: ${data}\n\n`).join('');
const piece = (content: unknown, finish_reason: string | null = null) => ({
  choices: [{ index: 0, delta: { content }, finish_reason }],
});

describe('a chat model', () => {
  let openAi: ScriptedModel;
  let server: ScriptedServer;
  before(async () => {
    [openAi, server] = await Promise.all([startScriptedModel(), startScriptedServer()]);
  });
  beforeEach(() => openAi.behave(() => ({ kind: 'answer', text: 'One two three.' })));
  after(() => Promise.all([openAi.close(), server.close()]));

  type Options = { at?: { baseUrl: string }; changes?: Partial<ModelRequest>; timeout?: () => StreamTimeout };
  const modelAt = ({ at = server, timeout }: Options) =>
    createChatModel({ baseUrl: at.baseUrl, apiKey: 'key' }, timeout);
  const complete = (options: Options = {}) => modelAt(options).complete({ ...request, ...options.changes });
  async function stream(options: Options = {}) {
    const pieces: string[] = [];
    const reply = await modelAt(options).stream({ ...request, ...options.changes }, (text) => pieces.push(text));
    return { ...reply, pieces };
  }
  /** The codes of a stream and of a whole reply. */
  const codesOf = async (options: Options = {}) => [
    await appErrorCode(stream(options)),
    await appErrorCode(complete(options)),
  ];
  /** Answers a stream with the pieces, and a request for a whole reply with the first choice. */
  const answer = (...pieces: unknown[]) =>
    server.answer((response, body: { stream?: boolean }) => {
      if (!body.stream) return answerJson(200, pieces[0])(response, body as never);
      open(response, body as never);
      response.end(eventsOf(...pieces));
    });

  describe('of OpenAI', () => {
    const at = () => ({ at: openAi });
    const usage = { inputTokens: 120, cachedInputTokens: 20, completionTokens: 7 };

    it('receives model, temperature and token limit, and returns its reply and usage, whole or streamed', async () => {
      const reply = { text: 'One two three.', model: 'm', usage };
      expect(await stream(at())).deep.equal({ ...reply, pieces: ['One', ' two', ' three.'] });
      expect(await complete(at())).deep.equal(reply);
      for (const asked of openAi.requests) expect(asked).include({ model: 'm', temperature: 0.3, max_tokens: 50 });
    });

    it('is not called again after an error response, whose Retry-After is passed on', async () => {
      openAi.behave(() => ({ kind: 'status', status: 429, retryAfterSeconds: 9 }));
      expect(await codesOf(at())).deep.equal(['model_unavailable', 'model_unavailable']);
      expect(openAi.requests).length(2);
      const error = await complete(at()).catch((failure: unknown) => failure);
      expect(error).instanceOf(AppError).property('retryAfterSeconds', 9);
    });

    it('fails when its reply is empty or breaks off', async () => {
      openAi.behave(() => ({ kind: 'answer', text: ' ' }));
      expect(await codesOf(at())).deep.equal(['model_response_invalid', 'model_response_invalid']);
      openAi.behave(() => ({ kind: 'break_off', text: 'One two' }));
      expect(await appErrorCode(stream(at()))).oneOf(['model_unavailable', 'model_response_invalid']);
    });

    it('returns text without characters that Postgres rejects, and joins split surrogate pairs', async () => {
      openAi.behave(() => ({ kind: 'answer', text: ['a\0b', ' \ud83d', '\ude00', '\0', ' \udc00', '.', '\ud83d'] }));
      const { text, pieces } = await stream(at());
      expect(text).equal('ab 😀 \ufffd.\ufffd');
      expect(pieces).deep.equal(['ab', ' ', '😀', ' \ufffd', '.', '\ufffd']);
      expect((await complete(at())).text).equal(text);
    });

    it('stops when the signal aborts, and fails with the reason of the signal', async () => {
      const never = Promise.withResolvers<void>();
      openAi.behave(() => ({ kind: 'answer', text: 'One two three.', until: never.promise }));
      const stop = new AbortController();
      const reason = new Error('enough');
      const streamed = modelAt(at()).stream({ ...request, signal: stop.signal }, () => stop.abort(reason));
      expect(await streamed.catch((error: unknown) => error)).equal(reason);
      never.resolve();
    });
  });

  describe('of a provider that deviates from OpenAI', () => {
    it('returns only the first choice, without reasoning and without events that have no content', async () => {
      const parts = [
        { type: 'thinking', thinking: [{ type: 'text', text: 'One, then two.' }] },
        { type: 'text', text: 'One two' },
      ];
      answer({ choices: [{ message: { content: parts } }] });
      expect((await complete()).text).equal('One two');
      const second = { choices: [{ index: 1, delta: { content: 'another' }, finish_reason: 'stop' }] };
      const last = piece([{ type: 'text', text: ' three.' }], 'stop');
      answer(null, second, piece(parts), piece(null), { choices: {} }, last);
      expect(await stream()).deep.include({ text: 'One two three.', pieces: ['One two', ' three.'] });
    });

    it('marks an answer that was truncated', async () => {
      for (const truncatedBy of ['length', 'content_filter'] as const) {
        const said = { content: 'One two' };
        answer({ choices: [{ index: 0, message: said, delta: said, finish_reason: truncatedBy }] });
        for (const reply of [await stream(), await complete()]) expect(reply).include({ text: 'One two', truncatedBy });
      }
    });

    it('gets no prompt through a redirect to another host', async () => {
      const elsewhere = await startScriptedServer();
      for (const status of [301, 302, 303, 307, 308]) {
        server.answer((response) => response.writeHead(status, { location: `${elsewhere.baseUrl}/steal` }).end());
        expect(await codesOf(), String(status)).deep.equal(['model_rejected', 'model_rejected']);
      }
      expect(elsewhere.calls).deep.equal([]);
      await elsewhere.close();
    });

    it('fails if its response has the wrong shape or the finish_reason `error`', async () => {
      const failed = { message: { content: 'One' }, delta: { content: 'One' }, finish_reason: 'error' };
      const numbered = { message: { content: 7 }, delta: { content: 7 }, finish_reason: 'stop' };
      const choices = [[], [null], [numbered], [failed]];
      for (const body of [null, 7, ...choices.map((some) => ({ choices: some }))]) {
        answer(body);
        expect(await codesOf(), JSON.stringify(body)).deep.equal(Array(2).fill('model_response_invalid'));
      }
    });

    it('returns 0 for invalid token counts', async () => {
      const none = { inputTokens: 0, cachedInputTokens: 0, completionTokens: 0 };
      const capped = { prompt_tokens: 5, completion_tokens: 2, prompt_tokens_details: { cached_tokens: 9 } };
      for (const [usage, expected] of [
        [undefined, none],
        [null, none],
        ['much', none],
        [{ prompt_tokens: '12', completion_tokens: -1 }, none],
        [{ prompt_tokens: 1.5 }, none],
        [{ prompt_tokens: 1e12 }, none],
        [capped, { inputTokens: 5, cachedInputTokens: 5, completionTokens: 2 }],
      ]) {
        answer({ choices: [{ message: { content: 'One' } }], usage });
        expect((await complete()).usage).deep.equal(expected);
      }
    });

    type Sent = { max_tokens?: number; temperature?: number; seed?: number; response_format?: { type: string } };
    /** Refuses a body with a field by the field's error, the first one that applies. */
    const refuseFields = (errors: Partial<Record<keyof Sent, object>>) =>
      server.answer((response, body: Sent) => {
        const [, error] = Object.entries(errors).find(([field]) => field in body) ?? [];
        const answered = { choices: [{ message: { content: '{}' } }] };
        (error ? answerJson(400, { error }) : answerJson(200, answered))(response, body as never);
      });
    const responseSchema = { name: 'verdict', schema: { type: 'object', properties: {} } };

    it('is called again without the parameters that its errors reject, and is not sent them in later calls', async () => {
      const refused = { type: 'invalid_request_error', code: 'unsupported_parameter' };
      const unsupported = "Unsupported value: 'temperature' does not support 0.3.";
      refuseFields({
        max_tokens: {
          ...refused,
          param: 'max_tokens',
          message: "Use 'max_completion_tokens' instead of 'max_tokens'.",
        },
        temperature: { ...refused, param: 'temperature', message: unsupported },
      });
      const own = modelAt({});
      await own.complete(request);
      expect(server.calls).length(3);
      expect(server.calls[2]?.body).include({ max_completion_tokens: 50 });
      await own.complete(request);
      expect(server.calls).length(4);
      const fresh = modelAt({});
      const atOnce = await Promise.all([fresh.complete(request), fresh.complete(request)]);
      expect(atOnce.map(({ text }) => text)).deep.equal(['{}', '{}']);
    });

    it('is no longer sent seed, JSON schema and response_format after errors about them', async () => {
      const type = 'invalid_request_error';
      refuseFields({
        seed: { type, message: 'seed: Extra inputs are not permitted' },
        response_format: { type, message: 'This response_format type is unavailable now' },
      });
      const own = modelAt({});
      for (const _ of [1, 2]) await own.complete({ ...request, seed: 7, responseSchema });
      const types = server.calls.map(({ body }) => (body as Sent).response_format?.type);
      expect(types).deep.equal(['json_schema', 'json_schema', 'json_object', undefined, undefined]);
    });

    it('is called only once if the error stays whatever parameter is left out', async () => {
      const tooLarge = { message: 'max_tokens is too large: 50', param: 'max_tokens', code: null };
      const noJson = { message: 'response_format is not supported', code: 'unsupported_response_format' };
      for (const error of [{ ...tooLarge, type: 'invalid_request_error' }, noJson]) {
        server.answer(answerJson(400, { error }));
        expect(await appErrorCode(complete(error === noJson ? { changes: { responseSchema } } : {}))).equal(
          'model_rejected',
        );
        expect(server.calls).length(1);
      }
    });
  });

  it('is aborted at the timeout that the caller sets, and finishes its answer if the caller sets none', async () => {
    server.answer(() => undefined);
    expect(await appErrorCode(complete({ changes: { timeoutMs: 50 } }))).equal('model_unavailable');
    answer(piece('{"score"'), piece(':3}', 'stop'));
    expect((await complete({ changes: { timeoutMs: null } })).text).equal('{"score":3}');
    // The aborted request may arrive late.
    expect(server.calls.map(({ body }) => Object(body).stream)).include(true);
  });

  describe('with a slow stream', () => {
    it('is not aborted while it sends comments, and is aborted once it sends nothing for too long', async () => {
      const isHeard = [Promise.withResolvers<void>(), Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      let count = 0;
      const timeout = () => ({ ...createStreamTimeout(60_000, 60_000), heard: () => isHeard[count++]?.resolve() });
      server.answer(async (response, body) => {
        open(response, body);
        response.flushHeaders();
        for (const { promise } of isHeard) {
          await promise;
          if (promise !== isHeard[2]?.promise) response.write(': waiting\n\n');
        }
        response.end(eventsOf(piece('One'), piece(undefined, 'stop')));
      });
      expect((await stream({ timeout })).text).equal('One');
      for (const begin of [() => undefined, open]) {
        server.answer(begin);
        const short = () => createStreamTimeout(20, 60_000);
        expect(await appErrorCode(stream({ timeout: short }))).equal('model_unavailable');
      }
    });

    it('fails if its stream ends with an error event, even after comments', async () => {
      for (const [type, code] of [
        ['server_error', 'model_unavailable'],
        ['invalid_request_error', 'model_rejected'],
      ]) {
        server.answer((response, body) => {
          open(response, body);
          response.end(`: waiting\n\ndata: ${JSON.stringify({ error: { message: 'No.', type } })}\n\n`);
        });
        expect(await appErrorCode(stream())).equal(code);
      }
    });
  });
});
