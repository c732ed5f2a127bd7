import { inspect } from 'node:util';
import { expect } from 'chai';
import { APIConnectionError, APIError } from 'openai';
import { createModelErrorMapper, isRequestTooLargeError } from '#src/adapters/models/openai-client.ts';
import { AppError } from '#src/errors.ts';

describe('errors of the model service', () => {
  const apiKey = 'sk-secret-0123456789';
  const toModelError = createModelErrorMapper({ apiKey });

  const ofStatus = (status: number) => {
    const message = `${'Incorrect API key provided: '.repeat(status === 500 ? 20 : 1)}${apiKey}`;
    const headers = new Headers({ 'x-your-key': apiKey });
    return APIError.generate(status, { error: { message, code: null } }, message, headers);
  };
  const thrown: Record<string, unknown> = {
    'a refused key': ofStatus(401),
    'a refused request': ofStatus(400),
    'an overload': ofStatus(429),
    'a long fault': ofStatus(500),
    'a lost connection': new APIConnectionError({ cause: new Error(`connect to http://${apiKey}@host`) }),
    'an unreadable answer': new SyntaxError(`Unexpected token in "${apiKey}"`),
  };
  for (const [what, error] of Object.entries(thrown)) {
    it(`do not contain the API key: ${what}`, () => {
      const ours = toModelError(error);
      expect(ours).instanceOf(AppError);
      const everything = inspect(ours, { depth: null, showHidden: true, maxStringLength: null });
      expect(everything).not.include(apiKey).and.not.include(apiKey.slice(0, 12));
      expect(everything).include('[key]');
    });
  }

  it('do not quote the service if only the operator can fix the error', () => {
    const error = toModelError(ofStatus(401));
    expect(error).instanceOf(AppError).property('message').not.include('Incorrect');
  });

  it('name an unknown model', () => {
    const message = 'The model `gpt-9` does not exist.';
    const error = toModelError(APIError.generate(404, { error: { message, code: null } }, message, new Headers()));
    expect(error).instanceOf(AppError).include({ code: 'model_not_configured' });
    expect(error).property('message').include(message);
  });

  it('do not mask a placeholder key', () => {
    const error = createModelErrorMapper({ apiKey: 'local' })(
      new APIConnectionError({ cause: new Error('localhost') }),
    );
    expect(error).instanceOf(AppError).property('cause').property('message').include('localhost');
  });

  for (const [message, code] of [
    ['as it says', 'context_length_exceeded'],
    ["This model's maximum context length is 8192 tokens.", null],
    ['prompt is too long: 210000 tokens > 200000 maximum', null],
    ['This is more than the context window of the model.', null],
  ] as const) {
    it(`tell a text beyond the context window from other errors: ${message}`, () => {
      const thrown = APIError.generate(400, { error: { message, code } }, message, new Headers());
      expect(toModelError(thrown)).instanceOf(AppError).include({ code: 'context_too_long' });
      expect(isRequestTooLargeError(thrown), 'fewer texts may pass').equal(true);
    });
  }
});
