export type ProviderRequest = {
  method?: 'GET' | 'POST' | 'DELETE';
  headers?: Readonly<Record<string, string>>;
  body?: string;
  signal?: AbortSignal;
};

/** Whatever the status; `body` is text of at most a megabyte. */
export type ProviderAnswer = { status: number; headers: Headers; body: string };

/**
 * Calls the API of a provider: by public addresses or those that the deployment allows, without following redirects,
 * within ten seconds. Throws `provider_unavailable` where no whole answer comes, and the signal's reason when that is
 * aborted. Errors quote neither the request nor the answer, which hold credentials.
 */
export type ProviderCaller = (url: string, request?: ProviderRequest) => Promise<ProviderAnswer>;
