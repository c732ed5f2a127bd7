import { Resolver } from 'node:dns/promises';
import { isIP, type LookupFunction } from 'node:net';
import ipaddr from 'ipaddr.js';
import { Agent, buildConnector } from 'undici';
import { type AppError, appError } from '#src/errors.ts';

/**
 * Range of all public IPv6 addresses (global unicast). For special addresses within this range, ipaddr.js's `range()`
 * is not `unicast`.
 */
const globalUnicast = ipaddr.IPv6.parseCIDR('2000::/3');
/** Azure's platform address is in a public range, but serves metadata to its machines. */
const platformAddress = '168.63.129.16';

/**
 * False for private addresses and those of metadata services, also if embedded in an IPv6 address (IPv4-mapped, NAT64,
 * 6to4, Teredo).
 */
export function isPublicAddress(text: string): boolean {
  if (!ipaddr.isValid(text)) return false;
  const address = ipaddr.parse(text);
  if (address.range() !== 'unicast') return false;
  return address instanceof ipaddr.IPv6 ? address.match(globalUnicast) : address.toString() !== platformAddress;
}

/** Names without a public server are refused without a DNS lookup, so that users cannot probe which names exist. */
function isPrivateName(hostName: string): boolean {
  return (
    !hostName.includes('.') || /\.(?:internal|local|localhost|localdomain|lan|intranet|home\.arpa)$/.test(hostName)
  );
}

export type ResolveHost = (hostName: string) => Promise<string[]>;

type GuardedAgentDeps = {
  /** Hosts that are reached even with a private address, as `host:port`. */
  allow: readonly string[];
  resolve?: ResolveHost;
};

const connectTimeoutMs = 5_000;

/**
 * An HTTP agent with an SSRF guard: connects to public addresses only. Resolves a host name once, so that the checked
 * address is the one that it connects to. Fails with `url_not_allowed` whether or not a server exists.
 */
export function createGuardedAgent({ allow, resolve = resolveByDns }: GuardedAgentDeps): Agent {
  const allowed = new Set(allow.map(normalizeHost));
  const settings = { timeout: connectTimeoutMs, allowH2: false };
  const connectAnywhere = buildConnector(settings);
  const connectToPublic = buildConnector({ ...settings, lookup: createPublicAddressLookup(resolve) });

  return new Agent({
    allowH2: false,
    connect: (options, callback) => {
      const { hostname, protocol } = options;
      const port = options.port || (protocol === 'https:' ? '443' : '80');
      if (allowed.has(normalizeHost(`${bracketed(hostname)}:${port}`))) return connectAnywhere(options, callback);
      const refusal = refusalOf(hostname, port);
      if (refusal !== null) return callback(refusal, null);
      connectToPublic(options, callback);
    },
  });
}

export function urlNotAllowedError(detail: string): AppError {
  return appError('url_not_allowed', { detail });
}

function refusalOf(hostName: string, port: string): AppError | null {
  if (port !== '80' && port !== '443') return urlNotAllowedError('Only ports 80 and 443 are allowed.');
  const isRefused = isIP(hostName) ? !isPublicAddress(hostName) : isPrivateName(hostName);
  return isRefused ? notPublic() : null;
}

/** Refuses a host name if any of its addresses is private, because the connection may use any of them. */
export function createPublicAddressLookup(resolve: ResolveHost): LookupFunction {
  return (hostName, { all }, callback) => {
    const choose = (addresses: string[]) => {
      const found = addresses.map((address) => ({ address, family: isIP(address) }));
      const [first] = found;
      if (first === undefined || !addresses.every(isPublicAddress)) callback(notPublic(), '');
      else if (all) callback(null, found);
      else callback(null, first.address, first.family);
    };
    resolve(hostName).then(choose, (error: Error) => callback(error, ''));
  };
}

function notPublic(): AppError {
  return urlNotAllowedError('Only addresses of the public internet are allowed.');
}

/**
 * Asks name servers directly, because the system's lookup blocks a thread of Node's pool while a name server is slow.
 */
async function resolveByDns(hostName: string): Promise<string[]> {
  const resolver = new Resolver({ timeout: 2_000, tries: 2 });
  const answers = await Promise.allSettled([resolver.resolve4(hostName), resolver.resolve6(hostName)]);
  const addresses = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
  if (addresses.length > 0) return addresses;
  throw new Error('the host name has no IP address', { cause: answers });
}

function normalizeHost(text: string): string {
  const { hostname, port } = new URL(`http://${text}`);
  return `${hostname}:${port || '80'}`;
}

function bracketed(hostName: string): string {
  return isIP(hostName) === 6 ? `[${hostName}]` : hostName;
}
