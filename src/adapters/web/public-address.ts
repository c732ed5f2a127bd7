import ipaddr from 'ipaddr.js';

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
export function isPrivateName(hostName: string): boolean {
  return (
    !hostName.includes('.') || /\.(?:internal|local|localhost|localdomain|lan|intranet|home\.arpa)$/.test(hostName)
  );
}
