import { type ProviderReply, startProviderServer } from './provider-server.ts';

const refusal = (code: string, detail: string): ProviderReply => ({
  status: 422,
  json: { type: 'ErrorResponse', error: { id: 'e-1', status: 422, code, detail }, time: 0 },
});

export async function startFakeBrave() {
  const keys = new Set<string>();
  let results: object[] = [];

  const server = await startProviderServer(({ method, url, headers }) => {
    if (method !== 'GET' || url.pathname !== '/res/v1/web/search') return { status: 404 };
    const key = String(headers['x-subscription-token'] ?? '');
    // Other providers answer 401.
    if (!keys.has(key)) return refusal('SUBSCRIPTION_TOKEN_INVALID', `The provided token is invalid: ${key}`);
    const query = url.searchParams.get('q') ?? '';
    const count = Number(url.searchParams.get('count') ?? 20);
    const offset = Number(url.searchParams.get('offset') ?? 0);
    const isSound = query.length >= 1 && query.length <= 400 && count >= 1 && count <= 20 && offset >= 0 && offset <= 9;
    if (!isSound) return refusal('VALIDATION', 'Unable to validate request parameter(s)');
    const page = results.slice(offset * count, (offset + 1) * count);
    return { status: 200, json: { type: 'search', ...(page.length > 0 && { web: { results: page } }) } };
  });
  return {
    ...server,
    newKey(): string {
      const key = `BSA-${crypto.randomUUID()}`;
      keys.add(key);
      return key;
    },
    withdraw: (key: string) => keys.delete(key),
    find(found: { title: string; url: string; description: string; age?: string }[]): void {
      results = found;
    },
  };
}
