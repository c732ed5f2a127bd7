import type { Readable } from 'node:stream';

export type WebContent = {
  finalUrl: string;
  /** Header `Content-Type` with its parameters; `application/octet-stream` if the server sends none. */
  mediaType: string;
  fileName: string | null;
  /** Decompressed; read it to its end or destroy it. Fails with `url_unreachable` or `payload_too_large`. */
  content: Readable;
};

/** Fetches URLs that users name. Only public addresses, and those that the deployment allows, are requested. */
export type WebFetcher = {
  /**
   * Resolves once the headers of a 2xx response have arrived; the body is streamed. Throws `url_not_allowed`, which
   * never reveals what is at a refused address, `url_unreachable`, and `payload_too_large` above `limitBytes`. Errors
   * contain no URL.
   */
  fetch(
    url: string,
    options: {
      limitBytes: number;
      timeoutMs?: number;
      accept?: string;
      signal?: AbortSignal;
      permits?: (url: URL) => boolean;
    },
  ): Promise<WebContent>;
};

export type ProviderHttpRequest = {
  method?: 'GET' | 'POST' | 'DELETE';
  headers?: Readonly<Record<string, string>>;
  body?: string;
  signal?: AbortSignal;
};

export type ProviderHttpResponse = { status: number; headers: Headers; body: string };

/**
 * Calls a provider's API at a public address, or one that the deployment allows, without following redirects, with a
 * timeout of ten seconds. Throws `provider_unavailable` when no complete response arrives, and the signal's reason when
 * the signal is aborted. Errors contain neither request nor response, because both may contain credentials.
 */
export type ProviderHttpClient = (url: string, request?: ProviderHttpRequest) => Promise<ProviderHttpResponse>;
