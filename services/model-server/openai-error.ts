export class OpenAiError extends Error {
  readonly status: number;
  readonly code: string | null;
  readonly param: string | null;
  readonly retryAfterSeconds: number | null;

  constructor(
    status: number,
    message: string,
    details: { code?: string; param?: string; retryAfterSeconds?: number } = {},
  ) {
    super(message);
    this.status = status;
    this.code = details.code ?? null;
    this.param = details.param ?? null;
    this.retryAfterSeconds = details.retryAfterSeconds ?? null;
  }

  toBody() {
    const type = this.status < 500 ? 'invalid_request_error' : 'server_error';
    return { error: { message: this.message, type, param: this.param, code: this.code } };
  }
}

/** Converts any error into a response that does not leak internals: 500 unless it is an OpenAiError. */
export function toOpenAiError(error: unknown): OpenAiError {
  return error instanceof OpenAiError ? error : new OpenAiError(500, 'The model server failed to answer.');
}

export function modelNotFound(model: string, known: readonly string[]): OpenAiError {
  const here =
    known.length > 0
      ? `Installed models of this endpoint: ${known.join(', ')}.`
      : 'No model of this endpoint is installed.';
  return new OpenAiError(404, `The model '${model}' is not installed. ${here}`, {
    code: 'model_not_found',
    param: 'model',
  });
}
