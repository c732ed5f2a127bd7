import { createParser } from 'eventsource-parser';

export type Problem = { status: number; code: string; detail: string };

/** A problem response of the API, thrown so that the demo can print its code and detail. */
export class ApiProblem extends Error {
  override readonly name = 'ApiProblem';
  readonly problem: Problem;
  constructor(problem: Problem) {
    super(`${problem.status} ${problem.code}: ${problem.detail}`);
    this.problem = problem;
  }
}

export type ApiClient = {
  get<T>(path: string): Promise<T>;
  head(path: string): Promise<Headers>;
  post<T>(path: string, body: unknown): Promise<T>;
  patch<T>(path: string, body: unknown): Promise<T>;
  delete(path: string): Promise<void>;
  upload<T>(path: string, file: { name: string; content: Blob }, fields?: Record<string, string>): Promise<T>;
  stream(path: string, body: unknown): AsyncGenerator<{ event: string; data: string }>;
  as(accessToken: string): ApiClient;
};

/** A REST client as users of the service would write it: it uses only `fetch` and the public API. */
export function createApiClient(baseUrl: string, accessToken?: string): ApiClient {
  const headers = (more: Record<string, string> = {}): Record<string, string> =>
    accessToken === undefined ? more : { authorization: `Bearer ${accessToken}`, ...more };

  async function request(path: string, init: RequestInit): Promise<Response> {
    const response = await fetch(`${baseUrl}${path}`, init);
    if (response.ok) return response;
    const problem: unknown = await response.json().catch(() => null);
    throw new ApiProblem(asProblem(problem, response.status));
  }

  const read = async <T>(response: Promise<Response>): Promise<T> => (await (await response).json()) as T;

  const sendJson = (method: 'POST' | 'PATCH', path: string, body: unknown): Promise<Response> =>
    request(path, {
      method,
      headers: headers({ 'content-type': 'application/json' }),
      body: JSON.stringify(body),
    });

  return {
    head: async (path) => (await request(path, { method: 'HEAD', headers: headers() })).headers,
    get: (path) => read(request(path, { headers: headers() })),
    post: (path, body) => read(sendJson('POST', path, body)),
    patch: (path, body) => read(sendJson('PATCH', path, body)),
    delete: async (path) => {
      await request(path, { method: 'DELETE', headers: headers() });
    },
    upload: (path, file, fields = {}) => {
      const form = new FormData();
      for (const [name, value] of Object.entries(fields)) form.set(name, value);
      form.set('file', file.content, file.name);
      return read(request(path, { method: 'POST', headers: headers(), body: form }));
    },
    async *stream(path, body) {
      const response = await sendJson('POST', path, body);
      if (response.body === null) return;
      const waiting: { event: string; data: string }[] = [];
      const parser = createParser({
        onEvent: ({ event, data }) => waiting.push({ event: event ?? 'message', data }),
      });
      const decoder = new TextDecoder();
      for await (const bytes of response.body) {
        parser.feed(decoder.decode(bytes, { stream: true }));
        while (waiting.length > 0) {
          const next = waiting.shift();
          if (next !== undefined) yield next;
        }
      }
    },
    as: (token) => createApiClient(baseUrl, token),
  };
}

function asProblem(body: unknown, status: number): Problem {
  const fields = typeof body === 'object' && body !== null ? body : {};
  const code = 'code' in fields && typeof fields.code === 'string' ? fields.code : 'unknown';
  const detail = 'detail' in fields && typeof fields.detail === 'string' ? fields.detail : 'no detail';
  return { status, code, detail };
}
