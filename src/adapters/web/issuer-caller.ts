import type { ProviderCaller } from '#src/ports/web.ts';
import { createGuardedAgent } from './guarded-agent.ts';
import { createProviderCaller } from './provider-caller.ts';

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
