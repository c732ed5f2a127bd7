import type { Readable } from 'node:stream';

export type WebContent = {
  /** Where the redirects have ended. */
  finalUrl: string;
  /** As the server says, with its parameters; `application/octet-stream` where it says nothing. */
  mediaType: string;
  /** What the server wants the file to be called. */
  fileName: string | null;
  /** Unpacked. Fails with `url_unreachable` or `payload_too_large`; whoever does not read it to its end destroys it. */
  content: Readable;
};

/** Fetches what a user names, from public addresses and those that the deployment allows. */
export type WebFetcher = {
  /**
   * Resolves with the headers of a 2xx answer, its body still to come; all of it has to be there within `longestMs`.
   * Throws `url_not_allowed`, which never tells what is at a refused address, `url_unreachable`, and
   * `payload_too_large` for more than `limitBytes`. Errors quote no address.
   */
  fetch(
    url: string,
    options: {
      limitBytes: number;
      /** Of redirects, headers and body together. The fetcher's own when not given. */
      longestMs?: number;
      accept?: string;
      signal?: AbortSignal;
      /** Asked of each address before it is: those that redirects lead to, too. All may be without it. */
      permits?: (url: URL) => boolean;
    },
  ): Promise<WebContent>;
};
