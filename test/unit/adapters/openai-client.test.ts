import { inspect } from 'node:util';
import { expect } from 'chai';
import { APIConnectionError, APIError } from 'openai';
import {
  createModelErrorMapper,
  createOpenAiClient,
  isRequestTooLargeError,
  isServerInPrivateNetwork,
} from '#src/adapters/models/openai-client.ts';
import { AppError } from '#src/errors.ts';
import { startWebSite } from '#test/support/web-site.ts';

describe('the trace header of a request to a model server', () => {
  it('is sent to an internal server, even by a copy of the client that has another fetch function', async () => {
    const site = await startWebSite();
    const traceparent = '00-a1b2c3d4e5f60718293a4b5c6d7e8f90-00f067aa0ba902b7-01';
    site.page((response) => response.writeHead(200, { 'content-type': 'application/json' }).end('{}'), '/v1/models');
    const clientWith = (value: string | undefined) =>
      createOpenAiClient({ baseUrl: `http://${site.place}/v1`, apiKey: 'key', traceparent: () => value }, 5_000);
    await clientWith(traceparent).models.list();
    await clientWith(traceparent).withOptions({ fetch }).models.list();
    await clientWith(undefined).models.list();
    const sent = site.requests.map(({ headers }) => headers.traceparent);
    expect(sent).deep.equal([traceparent, traceparent, undefined]);
    await site.close();
  });

  it('is sent only to addresses and host names of the internal network', () => {
    const own = ['http://127.0.0.1:3010/v1', 'http://[::1]:3010/v1', 'http://10.0.0.7/v1', 'http://model-server/v1'];
    const foreign = ['https://api.openai.com/v1', 'http://203.0.114.7/v1', 'https://models.example.com/v1'];
    expect([...own, ...foreign].filter(isServerInPrivateNetwork)).deep.equal(own);
  });
});

describe('an error of the model service', () => {
  const apiKey = 'sk-secret-0123456789';
  const toModelError = createModelErrorMapper({ apiKey });
  const errorOf = (status: number, message: string, code: string | null = null) =>
    APIError.generate(status, { error: { message, code } }, message, new Headers({ 'x-your-key': apiKey }));

  it('has a code that tells whether the caller, the operator or a later retry can solve the problem', () => {
    const codes = {
      model_rejected: [400, 422],
      model_not_configured: [401, 402, 403, 404],
      model_unavailable: [429, 500, 503],
    };
    for (const [code, statuses] of Object.entries(codes)) {
      for (const status of statuses) expect(toModelError(errorOf(status, 'no')), `${status}`).include({ code });
    }
    const exhausted = errorOf(429, 'no', 'insufficient_quota');
    expect(toModelError(exhausted)).include({ code: 'model_not_configured' });
  });

  it('never contains the API key', () => {
    const incorrect = 'Incorrect API key provided: ';
    for (const error of [
      ...[400, 401, 429].map((status) => errorOf(status, `${incorrect}${apiKey}`)),
      errorOf(500, `${incorrect.repeat(20)}${apiKey}`),
      new APIConnectionError({ cause: new Error(`connect to http://${apiKey}@host`) }),
      new SyntaxError(`Unexpected token in "${apiKey}"`),
    ]) {
      const ours = toModelError(error);
      expect(ours).instanceOf(AppError);
      const everything = inspect(ours, { depth: null, showHidden: true, maxStringLength: null });
      expect(everything).include('[key]').and.not.include(apiKey.slice(0, 12));
    }
    const local = new APIConnectionError({ cause: new Error('localhost') });
    const masked = createModelErrorMapper({ apiKey: 'local' })(local);
    expect(masked, 'a placeholder is no key').property('cause').property('message').include('localhost');
  });

  it('names an unknown model, and does not quote the service if only the operator can help', () => {
    const message = 'The model `gpt-9` does not exist.';
    const unknown = toModelError(errorOf(404, message));
    expect(unknown).include({ code: 'model_not_configured' }).property('message').include(message);
    expect(toModelError(errorOf(401, 'Incorrect key')))
      .property('message')
      .not.include('Incorrect');
  });

  it('has the code context_too_long for each wording in which servers say that a text is too long', () => {
    for (const [message, code] of [
      ['as it says', 'context_length_exceeded'],
      ["This model's maximum context length is 8192 tokens.", null],
      ['prompt is too long: 210000 tokens > 200000 maximum', null],
      ['This is more than the context window of the model.', null],
    ] as const) {
      const thrown = errorOf(400, message, code);
      expect(toModelError(thrown), message).include({ code: 'context_too_long' });
      expect(isRequestTooLargeError(thrown), 'fewer texts may pass').equal(true);
    }
  });
});
