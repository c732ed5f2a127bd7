import { Resolver } from 'node:dns/promises';
import { isIP, type LookupFunction } from 'node:net';
import ipaddr from 'ipaddr.js';
import { Agent, buildConnector } from 'undici';
import { type AppError, appError } from '#src/errors.ts';

/** All of IPv6 that was ever given out to networks; what is special inside is known by its range. */
const globalUnicast = ipaddr.IPv6.parseCIDR('2000::/3');
/** Public by its range, and yet the host that an Azure machine runs on. */
const platformAddress = '168.63.129.16';

/**
 * Is it an address of the public internet? Not so are those of the machine, of its networks and of whatever hands them
 * credentials, nor those that carry another address inside (IPv4-mapped, NAT64, 6to4, Teredo).
 */
export function isPublicAddress(text: string): boolean {
  if (!ipaddr.isValid(text)) return false;
  const address = ipaddr.parse(text);
  if (address.range() !== 'unicast') return false;
  return address instanceof ipaddr.IPv6 ? address.match(globalUnicast) : address.toString() !== platformAddress;
}

/** Names that no public server has, so that nobody learns from an answer which of them exist here. */
function isPrivateName(hostName: string): boolean {
  return (
    !hostName.includes('.') || /\.(?:internal|local|localhost|localdomain|lan|intranet|home\.arpa)$/.test(hostName)
  );
}

/** All addresses of a name. Throws when there are none. */
export type Resolve = (hostName: string) => Promise<string[]>;

type GuardedAgentDeps = {
  /** `host:port`, as in a URL: these are let through unchecked. */
  allow: readonly string[];
  resolve?: Resolve;
};

const connectTimeoutMs = 5_000;

/**
 * Connects to public addresses only, whatever name or spelling leads there: for every address that comes from a user,
 * his base URLs, too. A name is looked up when its connection is made, and what was checked is what is dialled. Fails
 * with `url_not_allowed`, the same for whatever is or is not there.
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

/** What an address alone tells. An IP address is never looked up: it is checked here or nowhere. */
function refusalOf(hostName: string, port: string): AppError | null {
  if (port !== '80' && port !== '443') return urlNotAllowed('Only ports 80 and 443 are asked.');
  const isRefused = isIP(hostName) ? !isPublicAddress(hostName) : isPrivateName(hostName);
  return isRefused ? notPublic() : null;
}

/**
 * Finds a name and refuses it for one private address among public ones: which one is dialled is chance. Also for agents
 * of Node.
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

/** Asks name servers alone: the system's own lookup takes a thread for as long as a server of somebody else likes. */
async function resolveByDns(hostName: string): Promise<string[]> {
  const resolver = new Resolver({ timeout: 2_000, tries: 2 });
  const answers = await Promise.allSettled([resolver.resolve4(hostName), resolver.resolve6(hostName)]);
  const addresses = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
  if (addresses.length > 0) return addresses;
  throw new Error('the name has no address', { cause: answers });
}

/** One spelling of a host and port. */
function placeOf(text: string): string {
  const { hostname, port } = new URL(`http://${text}`);
  return `${hostname}:${port || '80'}`;
}

function bracketed(hostName: string): string {
  return isIP(hostName) === 6 ? `[${hostName}]` : hostName;
}
