import { expect } from 'chai';
import { clientNetwork } from '#src/http/client-network.ts';

describe('clientNetwork', () => {
  const cases = {
    '203.0.113.7': '203.0.113.7',
    '::ffff:203.0.113.7': '203.0.113.7',
    '2001:db8:1:2:3:4:5:6': '2001:db8:1:2::/64',
    '2001:0DB8:0001:0002::1': '2001:db8:1:2::/64',
    '2001:db8::1': '2001:db8:0:0::/64',
    '::1': '0:0:0:0::/64',
    'fe80::1%eth0': 'fe80:0:0:0::/64',
  };
  for (const [address, network] of Object.entries(cases)) {
    it(`counts ${address} as ${network}`, () => {
      expect(clientNetwork(address)).equal(network);
    });
  }

  it('counts a client whose address nobody knows, too', () => {
    expect(clientNetwork(undefined)).equal('unknown');
  });
});
