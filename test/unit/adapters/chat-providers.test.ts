import { expect } from 'chai';
import { createChatModel } from '#src/adapters/models/chat-model.ts';
import type { ModelRequest } from '#src/ports/chat-model.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import {
  answerJson,
  type ScriptedAnswer,
  type ScriptedServer,
  startScriptedServer,
} from '#test/support/scripted-server.ts';

describe('a chat model of a provider with ways of its own', () => {
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

  it('reads the text of an answer in parts, and not its thoughts', async () => {
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

  for (const [what, body] of Object.entries({
    null: null,
    'a number': 7,
    'no choices': { choices: [] },
    'a choice that is none': { choices: [null] },
    'a text that is none': { choices: [{ message: { content: 7 }, delta: { content: 7 }, finish_reason: 'stop' }] },
  })) {
    it(`cannot use ${what}`, async () => {
      server.answer(answerJson(200, body));
      expect(await appErrorCode(complete())).equal('model_response_invalid');
      server.answer(events(body));
      expect(await appErrorCode(stream())).equal('model_response_invalid');
    });
  }

  it('passes over an event that says nothing', async () => {
    server.answer(events(null, piece('One'), { choices: {} }, piece(' two', 'stop')));
    expect((await stream()).text).equal('One two');
  });

  it('counts only what is a count of tokens', async () => {
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
});
