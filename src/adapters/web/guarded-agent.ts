import { Resolver } from 'node:dns/promises';
import { isIP, type LookupFunction } from 'node:net';
import ipaddr from 'ipaddr.js';
import { Agent, buildConnector } from 'undici';
import { type AppError, appError } from '#src/errors.ts';

/** The IPv6 addresses that are assigned to networks; special ones among them have their own range. */
const globalUnicast = ipaddr.IPv6.parseCIDR('2000::/3');
/** In a public range, but the host of an Azure machine. */
const platformAddress = '168.63.129.16';

/**
 * True for addresses of the public internet. False for this machine, its networks, metadata services that hand out
 * credentials, and addresses that embed another one (IPv4-mapped, NAT64, 6to4, Teredo).
 */
export function isPublicAddress(text: string): boolean {
  if (!ipaddr.isValid(text)) return false;
  const address = ipaddr.parse(text);
  if (address.range() !== 'unicast') return false;
  return address instanceof ipaddr.IPv6 ? address.match(globalUnicast) : address.toString() !== platformAddress;
}

/** Names that no public server has. They are refused without a lookup, so that a caller cannot probe which exist. */
function isPrivateName(hostName: string): boolean {
  return (
    !hostName.includes('.') || /\.(?:internal|local|localhost|localdomain|lan|intranet|home\.arpa)$/.test(hostName)
  );
}

/** @returns all addresses of a name; throws if there are none */
export type Resolve = (hostName: string) => Promise<string[]>;

type GuardedAgentDeps = {
  /** `host:port` as in a URL; allowed without a check. */
  allow: readonly string[];
  resolve?: Resolve;
};

const connectTimeoutMs = 5_000;

/**
 * Connects only to public addresses, for every URL that a user controls, including base URLs. A name is resolved when the
 * connection is made, and the checked address is the one that is connected to. Fails with `url_not_allowed`, whether or
 * not a server is there.
 */
export function createGuardedAgent({ allow, resolve = resolveByDns }: GuardedAgentDeps): Agent {
  const allowed = new Set(allow.map(placeOf));
  const settings = { timeout: connectTimeoutMs, allowH2: false };
  const connectAnywhere = buildConnector(settings);
  const connectToPublic = buildConnector({ ...settings, lookup: publicLookup(resolve) });

  return new Agent({
    allowH2: false,
    connect: (options, callback) => {
      const { hostname, protocol } = options;
      const port = options.port || (protocol === 'https:' ? '443' : '80');
      if (allowed.has(placeOf(`${bracketed(hostname)}:${port}`))) return connectAnywhere(options, callback);
      const refusal = refusalOf(hostname, port);
      if (refusal !== null) return callback(refusal, null);
      connectToPublic(options, callback);
    },
  });
}

export function urlNotAllowed(detail: string): AppError {
  return appError('url_not_allowed', { detail });
}

/** Checks what needs no lookup. IP addresses are never looked up, so they are checked here. */
function refusalOf(hostName: string, port: string): AppError | null {
  if (port !== '80' && port !== '443') return urlNotAllowed('Only ports 80 and 443 are asked.');
  const isRefused = isIP(hostName) ? !isPublicAddress(hostName) : isPrivateName(hostName);
  return isRefused ? notPublic() : null;
}

/**
 * Resolves a name, and refuses it if any of its addresses is private, because any of them may be used. Also works for
 * agents of Node.js.
 */
export function publicLookup(resolve: Resolve): LookupFunction {
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
  return urlNotAllowed('Only addresses of the public internet are asked.');
}

/** Asks name servers directly: the system's lookup would block a thread while a name server does not answer. */
async function resolveByDns(hostName: string): Promise<string[]> {
  const resolver = new Resolver({ timeout: 2_000, tries: 2 });
  const answers = await Promise.allSettled([resolver.resolve4(hostName), resolver.resolve6(hostName)]);
  const addresses = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
  if (addresses.length > 0) return addresses;
  throw new Error('the name has no address', { cause: answers });
}

/** Normalizes a host and port. */
function placeOf(text: string): string {
  const { hostname, port } = new URL(`http://${text}`);
  return `${hostname}:${port || '80'}`;
}

function bracketed(hostName: string): string {
  return isIP(hostName) === 6 ? `[${hostName}]` : hostName;
}
