import { type ProviderCall, type ProviderReply, startProviderServer } from './provider-server.ts';

const error = (status: number, code: string, detail: string): ProviderReply => ({
  status,
  json: { type: 'ErrorResponse', error: { id: 'e-1', status, code, detail }, time: 0 },
});

/** Brave's web search, as far as we use it, by its protocol. */
export async function startFakeBrave() {
  const keys = new Set<string>();
  let results: object[] = [];

  function search({ method, url, headers }: ProviderCall): ProviderReply {
    if (method !== 'GET' || url.pathname !== '/res/v1/web/search') return { status: 404 };
    const key = String(headers['x-subscription-token'] ?? '');
    // Brave answers so, where others say 401.
    if (!keys.has(key)) {
      return error(422, 'SUBSCRIPTION_TOKEN_INVALID', `The provided subscription token is invalid: ${key}`);
    }
    const query = url.searchParams.get('q') ?? '';
    const count = Number(url.searchParams.get('count') ?? 20);
    const offset = Number(url.searchParams.get('offset') ?? 0);
    const isSound = query.length >= 1 && query.length <= 400 && count >= 1 && count <= 20 && offset >= 0 && offset <= 9;
    if (!isSound) return error(422, 'VALIDATION', 'Unable to validate request parameter(s)');
    const page = results.slice(offset * count, (offset + 1) * count);
    return {
      status: 200,
      json: { type: 'search', query: { original: query }, ...(page.length > 0 && { web: { results: page } }) },
    };
  }

  const server = await startProviderServer(search);
  return {
    ...server,
    /** A new key that works. */
    newKey(): string {
      const key = `BSA-${crypto.randomUUID()}`;
      keys.add(key);
      return key;
    },
    withdraw: (key: string) => keys.delete(key),
    /** What is found by every search, best first. */
    find(found: { title: string; url: string; description: string; age?: string }[]): void {
      results = found;
    },
  };
}
