import type { ProviderCaller } from '#src/ports/provider-caller.ts';
import { createGuardedAgent } from './guarded-agent.ts';
import { createProviderCaller } from './provider-caller.ts';

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
  return createProviderCaller({ agent: createGuardedAgent({ allow: [...allow, place] }), ...limits });
}
