import { decodeHTML } from 'entities';
import {
  arrayOrEmptyArray,
  parseProviderJson,
  recordOrEmptyObject,
  textOrEmptyString,
} from '#src/adapters/providers.ts';
import { AppError, appError } from '#src/errors.ts';
import type { ToolCredentials, ToolExecutor } from '#src/ports/tools.ts';
import type { ProviderHttpClient, ProviderHttpResponse } from '#src/ports/web.ts';
import { providerStatusError } from '../providers.ts';

const name = 'Brave Search';
const defaultCount = 8;

type Deps = { call: ProviderHttpClient; baseUrl: string };
type Search = { query: string; count: number; page: number };

function createSearch({ call, baseUrl }: Deps) {
  return async (apiKey: string, { query, count, page }: Search, signal?: AbortSignal): Promise<unknown[]> => {
    const url = new URL(`${baseUrl}/res/v1/web/search`);
    url.search = new URLSearchParams({ q: query, count: String(count), offset: String(page - 1) }).toString();
    const headers = { accept: 'application/json', 'x-subscription-token': apiKey };
    const answer = await call(url.href, { headers, ...(signal && { signal }) });
    if (answer.status !== 200) throw errorOf(answer);
    return arrayOrEmptyArray(
      recordOrEmptyObject(recordOrEmptyObject(parseProviderJson(name, answer)).web).results,
    ).slice(0, count);
  };
}

/** Brave reports an invalid API key as an invalid field of the request. */
function errorOf(answer: ProviderHttpResponse): AppError {
  if (answer.status === 404)
    return appError('provider_unavailable', { detail: `The configured address of ${name} answers 404.` });
  const isInvalidKey =
    recordOrEmptyObject(recordOrEmptyObject(jsonOrNull(answer.body)).error).code === 'SUBSCRIPTION_TOKEN_INVALID';
  return providerStatusError(name, isInvalidKey ? { ...answer, status: 401 } : answer);
}

function jsonOrNull(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** Checks an API key by a search. Throws `connection_check_failed` if Brave rejects it, or `provider_unavailable`. */
export function createBraveKeyCheck(deps: Deps): (apiKey: string) => Promise<void> {
  const search = createSearch(deps);
  return async (apiKey) => {
    try {
      await search(apiKey, { query: 'weather', count: 1, page: 1 });
    } catch (error) {
      if (!(error instanceof AppError) || error.code === 'provider_unavailable') throw error;
      throw appError('connection_check_failed', { detail: `${name} rejects this API key.` });
    }
  };
}

export function createWebSearchTool(deps: Deps & { credentials: ToolCredentials }): ToolExecutor {
  const search = createSearch(deps);
  return async ({ query, count = defaultCount, page = 1 }, { actor, signal }) => {
    const wanted = { query: String(query), count: Number(count), page: Number(page) };
    const results = await deps.credentials.use(actor, 'web.search', (key) => search(key, wanted, signal));
    if (results.length === 0) return 'Nothing was found.';
    return results.map((result, index) => entryOf((wanted.page - 1) * wanted.count + index + 1, result)).join('\n\n');
  };
}

function entryOf(number: number, result: unknown): string {
  const { title, url, description, age } = recordOrEmptyObject(result);
  const [extract, when] = [plain(description, 1_000), plain(age, 60)];
  // Only the URL of a result is on a line of its own, and `isUrlInTexts` trusts only such lines. Extracts are quoted by
  // `>`, so that a page cannot add URLs that may be fetched.
  const lines = [
    textOrEmptyString(url).replace(/\s.*$/s, '').slice(0, 2_000),
    extract && `> ${extract}`,
    when && `(${when})`,
  ];
  return [`${number}. ${plain(title, 300)}`, ...lines].filter(Boolean).join('\n');
}

/** Removes the HTML tags with which Brave highlights the words of the query. */
function plain(value: unknown, maxLength: number): string {
  const text = decodeHTML(textOrEmptyString(value).replace(/<\/?\w[^>]{0,100}>/g, ''));
  return text.replace(/\s+/g, ' ').trim().slice(0, maxLength);
}
