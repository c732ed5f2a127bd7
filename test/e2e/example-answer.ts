/** At most so many elements of a list are shown. */
const maxElements = 2;
const maxCharacters = 400;
const uuid = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;

/**
 * Returns an answer as an example: ids, times, addresses and durations are the same in each recording, secrets are
 * replaced, and lists are cut.
 */
export function exampleAnswer(answer: unknown): unknown {
  const ids = new Map<string, string>();
  const replaceId = (id: string): string => {
    const known = ids.get(id) ?? `0198c0de-0000-7000-8000-${String(ids.size + 1).padStart(12, '0')}`;
    ids.set(id, known);
    return known;
  };

  function textOf(key: string, text: string): string {
    if (/token$|^secret$/.test(key)) return `<${key}>`;
    if (key === 'etag' || /^[0-9a-f]{64}$/.test(text)) return '0'.repeat(64);
    if (/^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(text)) return '2026-01-15T09:30:00.000Z';
    return text
      .replaceAll(uuid, replaceId)
      .replaceAll(/https?:\/\/127\.0\.0\.1:\d+/g, 'https://api.example.com')
      .replaceAll(/http%3A%2F%2F127\.0\.0\.1%3A\d+/g, 'https%3A%2F%2Fapi.example.com')
      .replaceAll(/(?<=\/namespaces\/)[\w-]+/g, 'default')
      .replaceAll(/(?<=\/files\/(?:exports\/)?)[\w.~-]+/g, 'token-of-the-file')
      .replaceAll(/(?<=[?&](?:state|nonce|code_challenge|client_id|signature)=)[^&]+/g, 'made-by-the-service')
      .replaceAll(/(?<=\b\w+)-[\w-]+(?=@example\.com)/g, '')
      .replaceAll('A scripted title', 'Returning goods')
      .replaceAll(/[\w-]{40,}/g, (long) => (long.search(uuid) < 0 ? 'made-by-the-service' : long))
      .slice(0, maxCharacters);
  }

  function numberOf(key: string, value: number): number {
    if (/_ms$|^expected_seconds$/.test(key)) return 420;
    if (key === 'size_bytes') return 16_384;
    return Math.round(value * 1_000) / 1_000;
  }

  function visit(key: string, value: unknown): unknown {
    if (Array.isArray(value)) return value.slice(0, maxElements).map((element) => visit(key, element));
    if (typeof value === 'string') return textOf(key, value);
    if (typeof value === 'number') return numberOf(key, value);
    if (value === null || typeof value !== 'object') return value;
    return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, visit(name, field)]));
  }
  return visit('', answer);
}
