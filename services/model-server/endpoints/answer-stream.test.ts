import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect } from 'chai';
import OpenAI from 'openai';
import { OpenAiError } from '../openai-error.ts';
import { openAnswerStream } from './answer-stream.ts';

describe('the event stream of a chat completion', () => {
  const options = { head: { id: 'chatcmpl-1', created: 1, model: 'slow' }, includeUsage: false, wordEveryMs: 5 };
  const usage = { promptTokens: 1, cachedTokens: 0, completionTokens: 2 };

  async function open() {
    const arrived = Promise.withResolvers<ServerResponse>();
    const server = createServer((_, response) => arrived.resolve(response)).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const answer = fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    const stream = openAnswerStream(await arrived.promise, options);
    const pieces = (async function* () {
      yield* (await answer).body?.pipeThrough(new TextDecoderStream()) ?? [];
      server.close();
    })();
    let text = '';
    const readUntil = async (words: string, from = text.length): Promise<void> => {
      while (!text.slice(from).includes(words)) {
        const { value, done } = await pieces.next();
        if (done) throw new Error(`${words} did not come: ${text}`);
        text += value;
      }
    };
    const rest = async (): Promise<string> => {
      for await (const piece of pieces) text += piece;
      return text;
    };
    return { stream, readUntil, rest };
  }

  async function read(text: string): Promise<string[]> {
    const client = new OpenAI({ apiKey: 'unused', maxRetries: 0, fetch: async () => new Response(text) });
    const messages = [{ role: 'user' as const, content: 'Count!' }];
    const chunks = await client.chat.completions.create({ model: 'slow', messages, stream: true });
    const contents = [];
    for await (const { choices } of chunks) contents.push(choices[0]?.delta.content ?? '');
    return contents;
  }

  it('contains a comment, which clients ignore, whenever the model is silent for long', async () => {
    const { stream, readUntil, rest } = await open();
    await readUntil(': waiting');
    stream.text('One');
    await readUntil('One');
    await readUntil(': waiting');
    stream.text(' two');
    stream.end({ finishReason: 'stop', toolCall: null, usage });
    expect(await read(await rest())).to.deep.equal(['', 'One', ' two', '']);
  });

  it('reports an error that occurs after the stream began', async () => {
    const { stream, readUntil, rest } = await open();
    await readUntil(': waiting');
    stream.fail(new OpenAiError(400, 'Too long.', { code: 'context_length_exceeded' }));
    const error = await read(await rest()).catch((reason: unknown) => reason);
    expect(error).to.be.instanceOf(OpenAI.APIError);
    expect(error).to.include({ code: 'context_length_exceeded', type: 'invalid_request_error' });
  });
});
