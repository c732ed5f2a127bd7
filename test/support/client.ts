import { expect } from 'chai';
import { EventSourceParserStream } from 'eventsource-parser/stream';
import type { z } from 'zod';
import { problemSchema } from '#src/http/response/problem.ts';
import { errorCodesOfRoute, type HttpRoute } from '#src/http/routing/route.ts';

/** `body` is parsed JSON, text for other media types, and null when there is none. */
export type Reply = { status: number; headers: Headers; body: unknown };

type Send = (path: string, body: unknown, expectedStatus: number, headers?: Record<string, string>) => Promise<Reply>;

/**
 * Calls the API and checks every response against the contract: a success by the schema of its route, a failure by the
 * shape of a problem and the codes of its route. The expected status is an argument, so that no test can forget it.
 */
export type ApiClient = {
  get(path: string, expectedStatus: number, headers?: Record<string, string>): Promise<Reply>;
  delete(path: string, expectedStatus: number, body?: unknown): Promise<Reply>;
  post: Send;
  patch: Send;
  put: Send;
  /** Sends a form with the part `file`: a POST unless told otherwise. */
  upload(
    path: string,
    file: { name: string; content: string | Uint8Array<ArrayBuffer>; type?: string },
    expectedStatus: number,
    options?: { method?: 'POST' | 'PATCH'; fields?: Record<string, string>; headers?: Record<string, string> },
  ): Promise<Reply>;
  postForm(path: string, fields: Record<string, string>, expectedStatus: number): Promise<Reply>;
  /** The response, unchecked: for streams and for invalid requests. */
  raw(path: string, init?: RequestInit): Promise<Response>;
  withToken(token: string): ApiClient;
  at(baseUrl: string): ApiClient;
};

export type Member = ApiClient & Record<'email' | 'password' | 'refreshToken' | 'userId' | 'orgId', string>;

type Options = { baseUrl: string; routes: readonly HttpRoute[]; token: string | null };

export function createClient({ baseUrl, routes, token }: Options): ApiClient {
  const raw = (path: string, init: RequestInit = {}): Promise<Response> => {
    const headers = new Headers(init.headers);
    if (token !== null && !headers.has('authorization')) headers.set('authorization', `Bearer ${token}`);
    return fetch(`${baseUrl}${path}`, { ...init, headers });
  };

  async function request(method: string, path: string, init: RequestInit, expectedStatus: number): Promise<Reply> {
    const response = await raw(path, { ...init, method });
    const reply = { status: response.status, headers: response.headers, body: await readBody(response) };
    expect(reply.status, `${method} ${path} answered ${JSON.stringify(reply.body)}`).to.equal(expectedStatus);
    checkAgainstContract(routes, method, path, reply);
    return reply;
  }

  const withJson =
    (method: string): Send =>
    (path, body, expectedStatus, headers = {}) => {
      const init = { headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(body) };
      return request(method, path, init, expectedStatus);
    };

  return {
    get: (path, expectedStatus, headers = {}) => request('GET', path, { headers }, expectedStatus),
    delete: (path, expectedStatus, body) =>
      body === undefined ? request('DELETE', path, {}, expectedStatus) : withJson('DELETE')(path, body, expectedStatus),
    post: withJson('POST'),
    patch: withJson('PATCH'),
    put: withJson('PUT'),
    upload: (path, { name, content, type = '' }, expectedStatus, { method = 'POST', fields = {}, headers = {} } = {}) =>
      request(method, path, { headers, body: formOf(fields, new File([content], name, { type })) }, expectedStatus),
    postForm: (path, fields, expectedStatus) => request('POST', path, { body: formOf(fields) }, expectedStatus),
    raw,
    withToken: (next) => createClient({ baseUrl, routes, token: next }),
    at: (other) => createClient({ baseUrl: other, routes, token }),
  };
}

export function formOf(fields: Record<string, string>, file?: File): FormData {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) form.set(name, value);
  if (file) form.set('file', file);
  return form;
}

async function readBody(response: Response): Promise<unknown> {
  const text = await response.text();
  if (text === '') return null;
  return /json/.test(response.headers.get('content-type') ?? '') ? JSON.parse(text) : text;
}

function checkAgainstContract(routes: readonly HttpRoute[], method: string, path: string, reply: Reply): void {
  const { status, headers, body } = reply;
  const request = `${method} ${path}`;
  if (status >= 400) expect(headers.get('content-type'), request).match(/json/);
  const route = findRoute(routes, method, path);
  const spec = route?.responses[status];
  if (spec !== undefined && 'schema' in spec) spec.schema.parse(body);
  else if (status >= 400) {
    const { code } = problemSchema.parse(body);
    if (route) expect([...errorCodesOfRoute(route)], request).include(code);
  } else if (status !== 304) expect(Object.keys(route?.responses ?? {}), request).include(String(status));
}

/** The most specific route, as in the server: literal segments come before parameters. */
function findRoute(routes: readonly HttpRoute[], method: string, path: string): HttpRoute | undefined {
  const segments = (path.split('?')[0] ?? '').split('/');
  const fits = (route: HttpRoute): boolean => {
    const pattern = route.path.split('/');
    const isOfLength = route.method === method.toLowerCase() && pattern.length === segments.length;
    return isOfLength && pattern.every((part, index) => part.startsWith(':') || part === segments[index]);
  };
  const parameters = (route: HttpRoute): number => route.path.split(':').length;
  return routes.filter(fits).sort((a, b) => parameters(a) - parameters(b))[0];
}

/** Sends JSON. The response is not checked against the contract. */
export function sendJson(
  client: ApiClient,
  method: string,
  path: string,
  body?: object,
  others: Record<string, string> = {},
): Promise<Response> {
  if (body === undefined) return client.raw(path, { method });
  const headers = { 'content-type': 'application/json', ...others };
  return client.raw(path, { method, headers, body: JSON.stringify(body) });
}

/** Waits for concurrent requests and returns their statuses in ascending order. */
export async function statusesOf(requests: readonly Promise<Response>[]): Promise<number[]> {
  return (await Promise.all(requests)).map(({ status }) => status).sort();
}

export type StreamEvent = { id: string | undefined; event: string | undefined; data: unknown };

/**
 * Checks that the `type` of each event's data is the name of the event, and returns the data without it. `schema` is
 * that of the route's events.
 */
export async function* readEvents(response: Response, schema?: z.ZodType): AsyncIterableIterator<StreamEvent> {
  if (response.body === null) throw new Error('the stream has no body');
  const events = response.body.pipeThrough(new TextDecoderStream()).pipeThrough(new EventSourceParserStream());
  for await (const { id, event, data } of events) {
    const parsed = JSON.parse(data);
    schema?.parse(parsed);
    const { type, ...rest } = parsed;
    expect(type).equal(event);
    yield { id, event, data: rest };
  }
}
