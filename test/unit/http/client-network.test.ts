import { expect } from 'chai';
import { networkOfClientAddress, sitePrefixOfIpv6Address } from '#src/http/request/headers.ts';

describe('networkOfClientAddress', () => {
  const cases = {
    '203.0.113.7': '203.0.113.7',
    '::ffff:203.0.113.7': '203.0.113.7',
    '2001:db8:1:2:3:4:5:6': '2001:db8:1:0::/56',
    '2001:0DB8:0001:02ff::1': '2001:db8:1:200::/56',
    '2001:db8::1': '2001:db8:0:0::/56',
    '::1': '0:0:0:0::/56',
    'fe80::1%eth0': 'fe80:0:0:0::/56',
  };
  for (const [address, network] of Object.entries(cases)) {
    it(`maps ${address} to the network ${network}`, () => {
      expect(networkOfClientAddress(address)).equal(network);
    });
  }

  it('puts clients without an address into one network', () => {
    expect(networkOfClientAddress(undefined)).equal('unknown');
  });
});

describe('sitePrefixOfIpv6Address', () => {
  const cases = { '2001:db8:1:2ff::1': '2001:db8:1::/48', '203.0.113.7': null, '::ffff:203.0.113.7': null };
  for (const [address, block] of Object.entries(cases)) {
    it(`maps ${address} to the block ${block}`, () => {
      expect(sitePrefixOfIpv6Address(address)).equal(block);
    });
  }
});
