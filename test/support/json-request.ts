import type { ApiClient } from './client.ts';

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
