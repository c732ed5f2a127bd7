import { type Dispatcher, request } from 'undici';
import { readWhole } from '#src/adapters/bounded-body.ts';
import { AppError, appError } from '#src/errors.ts';
import type { ProviderCaller } from '#src/ports/web.ts';
import { createGuardedAgent } from './guarded-agent.ts';

const defaultAnswerBytes = 1_000_000;

/** @param deps.agent a guarded one */
export function createProviderCaller(deps: {
  agent: Dispatcher;
  deadlineMs?: number;
  maxAnswerBytes?: number;
}): ProviderCaller {
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
      throw unavailable(deadline.aborted ? `It takes longer than ${deadlineMs / 1_000} seconds.` : reasonOf(error));
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
  const bytes = await readWhole(body, maxAnswerBytes);
  if (bytes === null) throw unavailable('Its answer is too large.');
  return bytes.toString('utf8');
}

/** What the agent refuses is a setting of ours and no address of a user. */
function reasonOf(error: unknown): string {
  if (!(error instanceof AppError)) return 'It does not answer, or breaks off.';
  return error.code === 'url_not_allowed'
    ? 'Its address is not public, and EGRESS_ALLOW does not name it.'
    : error.message;
}

function unavailable(detail: string): AppError {
  return appError('provider_unavailable', { detail });
}

/** Of a key set or a userinfo with many groups; the client's search for a key takes time for each of them. */
const maxAnswerBytes = 256 * 1024;

/**
 * Lets an identity provider through where it is, also on a private network: EGRESS_ALLOW would open it to every member.
 * @param deps.allow other places on private networks, as `host:port`
 */
export function createIssuerCaller(deps: {
  issuer: string;
  allow: readonly string[];
  deadlineMs?: number;
}): ProviderCaller {
  const { issuer, allow, ...limits } = deps;
  const { hostname, port, protocol } = new URL(issuer);
  const place = `${hostname}:${port || (protocol === 'https:' ? 443 : 80)}`;
  return createProviderCaller({ agent: createGuardedAgent({ allow: [...allow, place] }), maxAnswerBytes, ...limits });
}
