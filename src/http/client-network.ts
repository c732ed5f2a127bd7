import { isIPv6 } from 'node:net';

const groupsOfNetwork = 4;

/**
 * Whom an address stands for when requests are counted: an IPv4 address itself; of an IPv6 address its /64, which is
 * what one household or machine is given, with as many addresses as it likes.
 */
export function clientNetwork(address: string | undefined): string {
  const plain = (address ?? 'unknown').replace(/%.*$/, '').toLowerCase();
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/.exec(plain)?.[1];
  if (mapped !== undefined) return mapped;
  if (!isIPv6(plain)) return plain;
  const [head = '', tail] = plain.split('::');
  const before = head.split(':').filter(Boolean);
  const after = (tail ?? '').split(':').filter(Boolean);
  const gap = tail === undefined ? 0 : Math.max(0, 8 - before.length - after.length);
  const groups = [...before, ...Array<string>(gap).fill('0'), ...after];
  const network = groups.slice(0, groupsOfNetwork).map((group) => Number.parseInt(group, 16).toString(16));
  return `${network.join(':')}::/64`;
}
