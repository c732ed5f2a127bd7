import type { Readable } from 'node:stream';

export type WebContent = {
  finalUrl: string;
  /** The `Content-Type` of the response with its parameters; `application/octet-stream` if the server sends none. */
  mediaType: string;
  fileName: string | null;
  /**
   * The decompressed body must be read to its end or destroyed. Fails with `url_unreachable` or `payload_too_large`.
   */
  content: Readable;
};

/** Fetches URLs named by users, from public addresses and those that the deployment allows. */
export type WebFetcher = {
  /**
   * Resolves with the headers of a 2xx response; the body follows. Throws `url_not_allowed`, which never reveals what
   * is at a refused address, `url_unreachable`, and `payload_too_large` above `limitBytes`. Errors contain no URL.
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

export type ProviderRequest = {
  method?: 'GET' | 'POST' | 'DELETE';
  headers?: Readonly<Record<string, string>>;
  body?: string;
  signal?: AbortSignal;
};

/** The body of a provider's response is limited to 1 MB. */
export type ProviderResponse = { status: number; headers: Headers; body: string };

/**
 * Calls a provider's API at public addresses and those that the deployment allows, without following redirects, with a
 * timeout of ten seconds. Throws `provider_unavailable` when no complete response arrives, and the signal's reason.
 * Errors contain neither request nor response, because both may contain credentials.
 */
export type ProviderCaller = (url: string, request?: ProviderRequest) => Promise<ProviderResponse>;
