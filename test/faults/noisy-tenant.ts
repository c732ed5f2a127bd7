// A process that takes all that one tenant can get of an API: `node noisy-tenant.ts` with its task in NOISY_TENANT. Sends
// its parent how each kind of request was answered when it is told to stop.
import { setTimeout as delay } from 'node:timers/promises';

export type NoisyTask = {
  baseUrl: string;
  token: string;
  /** A job that is not over. */
  jobId: string;
  colleagueId: string;
  evaluationPath: string;
  /** An object store whose answers have no end. */
  hostileEndpoint: string;
};

/** How often each kind of request was answered with which status; `broken` where there was no answer. */
export type NoisyAnswers = Record<string, Record<string, number>>;

const { baseUrl, token, jobId, colleagueId, evaluationPath, hostileEndpoint } = JSON.parse(
  process.env.NOISY_TENANT ?? '{}',
) as NoisyTask;
const stopping = new AbortController();
const { signal } = stopping;
const answers: NoisyAnswers = {};
const text = 'A fox is quick, and a hound is slow. '.repeat(25_000);

const send = (path: string, init: RequestInit, headers: Record<string, string> = {}) =>
  fetch(`${baseUrl}${path}`, { signal, headers: { authorization: `Bearer ${token}`, ...headers }, ...init });
const get = (path: string) => send(path, { method: 'GET' });
const post = (path: string, body: object, headers: Record<string, string> = {}) =>
  send(path, { method: 'POST', body: JSON.stringify(body) }, { 'content-type': 'application/json', ...headers });

function uploadSlowly(path: string): Promise<Response> {
  const beginning = '--b\r\ncontent-disposition: form-data; name="file"; filename="a.png"\r\n\r\nsome';
  const body = new ReadableStream({ start: (sender) => sender.enqueue(new TextEncoder().encode(beginning)) });
  const type = { 'content-type': 'multipart/form-data; boundary=b' };
  return send(path, { method: 'POST', body, duplex: 'half' } as RequestInit, type);
}

const connection = {
  display_name: 'Reports',
  credentials: { access_key_id: 'key', secret_access_key: 'secret' },
  config: { endpoint: hostileEndpoint, bucket: 'reports' },
};
const password = { new_password: 'Another-horse-2' };

/** Kinds of requests, and how many of each are under way at a time. */
const kinds: Record<string, { atOnce: number; ask: () => Promise<Response> }> = {
  streams: { atOnce: 500, ask: () => get(`/jobs/${jobId}/events`) },
  previews: { atOnce: 40, ask: () => post('/rag/chunks/preview', { content: text }) },
  waits: { atOnce: 20, ask: () => post(evaluationPath, {}, { prefer: 'wait=60' }) },
  'slow avatars': { atOnce: 22, ask: () => uploadSlowly('/entity/me/avatar') },
  'slow uploads': { atOnce: 20, ask: () => uploadSlowly('/documents') },
  exports: { atOnce: 4, ask: () => post('/entity/org/exports', {}) },
  searches: { atOnce: 30, ask: () => get('/documents/search?q=fox%20hound%20quick%20slow') },
  passwords: { atOnce: 60, ask: () => post(`/entity/users/${colleagueId}/reset-password`, password) },
  folders: { atOnce: 10, ask: () => get('/folders') },
  connectors: { atOnce: 10, ask: () => post('/connectors/acme_s3/connections', connection) },
};

/** Retries as `Retry-After` says: a flood beyond that is for the proxy to stop. */
async function repeat(kind: string, ask: () => Promise<Response>): Promise<void> {
  answers[kind] ??= {};
  const counts = answers[kind];
  while (!signal.aborted) {
    let pauseSeconds = 0;
    try {
      const response = await ask();
      counts[response.status] = (counts[response.status] ?? 0) + 1;
      await response.arrayBuffer();
      if (!response.ok) pauseSeconds = Math.min(5, Number(response.headers.get('retry-after') ?? 1));
    } catch {
      if (!signal.aborted) counts.broken = (counts.broken ?? 0) + 1;
      pauseSeconds = 1;
    }
    await delay(pauseSeconds * 1_000 * (1 + Math.random()), undefined, { signal }).catch(() => undefined);
  }
}

process.once('message', () => stopping.abort());
await Promise.all(
  Object.entries(kinds).flatMap(([kind, { atOnce, ask }]) => Array.from({ length: atOnce }, () => repeat(kind, ask))),
);
process.send?.(answers);
process.disconnect();
