import { type Dispatcher, request } from 'undici';
import { readResponseBody } from '#src/adapters/providers.ts';
import { AppError, appError } from '#src/errors.ts';
import type { ProviderHttpClient } from '#src/ports/web.ts';
import { createGuardedAgent } from './guarded-agent.ts';

const defaultAnswerBytes = 1_000_000;

export function createProviderHttpClient(deps: {
  agent: Dispatcher;
  deadlineMs?: number;
  maxAnswerBytes?: number;
}): ProviderHttpClient {
  const { agent, deadlineMs = 10_000, maxAnswerBytes = defaultAnswerBytes } = deps;

  return async (url, { method = 'GET', headers = {}, body, signal } = {}) => {
    const deadline = AbortSignal.timeout(deadlineMs);
    const until = signal === undefined ? deadline : AbortSignal.any([signal, deadline]);
    try {
      const answer = await request(url, {
        dispatcher: agent,
        method,
        headers: { 'user-agent': 'AgentConversationService', ...headers },
        ...(body !== undefined && { body }),
        signal: until,
      });
      return {
        status: answer.statusCode,
        headers: headersOf(answer),
        body: await textOf(answer, maxAnswerBytes),
      };
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      throw unavailable(
        deadline.aborted ? `The provider took longer than ${deadlineMs / 1_000} seconds.` : reasonOf(error),
      );
    }
  };
}

function headersOf({ headers }: Dispatcher.ResponseData): Headers {
  const all = Object.entries(headers).flatMap(([name, value = []]) =>
    [value].flat().map((one): [string, string] => [name, one]),
  );
  return new Headers(all);
}

async function textOf({ body }: Dispatcher.ResponseData, maxAnswerBytes: number): Promise<string> {
  const bytes = await readResponseBody(body, maxAnswerBytes);
  if (bytes === null) throw unavailable('The answer of the provider is too large.');
  return bytes.toString('utf8');
}

/** The settings contain the URL of a provider, so the message about a refused URL is for the operator. */
function reasonOf(error: unknown): string {
  if (!(error instanceof AppError)) return 'The provider does not answer, or the connection broke.';
  return error.code === 'url_not_allowed'
    ? 'The address of the provider is private and not listed in EGRESS_ALLOW.'
    : error.message;
}

function unavailable(detail: string): AppError {
  return appError('provider_unavailable', { detail });
}

/** Size limit of an identity provider's responses: enough for a userinfo response with many groups. */
const issuerAnswerBytes = 256 * 1024;

/**
 * HTTP client for an identity provider that may be on a private network. An entry in EGRESS_ALLOW would open that
 * address to every user.
 */
export function createIdentityProviderHttpClient(deps: {
  issuer: string;
  allow: readonly string[];
  deadlineMs?: number;
}): ProviderHttpClient {
  const { issuer, allow, ...limits } = deps;
  const { hostname, port, protocol } = new URL(issuer);
  const issuerHost = `${hostname}:${port || (protocol === 'https:' ? 443 : 80)}`;
  const agent = createGuardedAgent({ allow: [...allow, issuerHost] });
  return createProviderHttpClient({ agent, maxAnswerBytes: issuerAnswerBytes, ...limits });
}
