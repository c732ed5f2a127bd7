/** An answer in OpenAI's error shape: `{ error: { message, type, param, code } }`. */
export class OpenAiError extends Error {
  readonly status: number;
  readonly code: string | null;
  readonly param: string | null;

  constructor(status: number, message: string, details: { code?: string; param?: string } = {}) {
    super(message);
    this.status = status;
    this.code = details.code ?? null;
    this.param = details.param ?? null;
  }

  toBody() {
    const type = this.status < 500 ? 'invalid_request_error' : 'server_error';
    return { error: { message: this.message, type, param: this.param, code: this.code } };
  }
}

export function modelNotFound(model: string, known: string): OpenAiError {
  return new OpenAiError(404, `The model '${model}' does not exist here. This endpoint has '${known}'.`, {
    code: 'model_not_found',
    param: 'model',
  });
}
