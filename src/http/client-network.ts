import { isIPv6 } from 'node:net';

const bitsOfSite = 56;
const bitsOfBlock = 48;

/**
 * Whom an address stands for when requests are counted: an IPv4 address itself, and of an IPv6 address its /56, which
 * providers give to a household or a rented machine with as many /64 and addresses as it likes (RIPE-690).
 */
export function clientNetwork(address: string | undefined): string {
  const plain = plainAddress(address);
  return isIPv6(plain) ? prefixOf(plain, bitsOfSite) : plain;
}

/** The /48 of an IPv6 address, which companies and some customers of hosters get as a whole; null of other addresses. */
export function clientBlock(address: string | undefined): string | null {
  const plain = plainAddress(address);
  return isIPv6(plain) ? prefixOf(plain, bitsOfBlock) : null;
}

/** Without a zone, and IPv4 where IPv6 only carries it. */
function plainAddress(address: string | undefined): string {
  const plain = (address ?? 'unknown').replace(/%.*$/, '').toLowerCase();
  return /^::ffff:(\d+\.\d+\.\d+\.\d+)$/.exec(plain)?.[1] ?? plain;
}

function prefixOf(address: string, bits: number): string {
  const [head = '', tail] = address.split('::');
  const before = head.split(':').filter(Boolean);
  const after = (tail ?? '').split(':').filter(Boolean);
  const gap = tail === undefined ? 0 : Math.max(0, 8 - before.length - after.length);
  const groups = [...before, ...Array<string>(gap).fill('0'), ...after];
  const network = groups.slice(0, Math.ceil(bits / 16)).map((group, index) => {
    const hostBits = Math.max(0, 16 * (index + 1) - bits);
    return ((Number.parseInt(group, 16) >> hostBits) << hostBits).toString(16);
  });
  return `${network.join(':')}::/${bits}`;
}
