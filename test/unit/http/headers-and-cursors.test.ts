import { expect } from 'chai';
import {
  isNoCacheRequested,
  networkOfClientAddress,
  parseByteRange,
  preferredWaitSeconds,
  sitePrefixOfIpv6Address,
} from '#src/http/request/headers.ts';
import { createCursorCodec } from '#src/http/request/pagination.ts';

describe('request headers:', () => {
  it('Range selects bytes of a file, gives null beyond its end, and is ignored unless it is one valid range', () => {
    const cases: [header: string | undefined, range: ReturnType<typeof parseByteRange>, sizeBytes?: number][] = [
      [undefined, undefined],
      ['bytes=0-3', { start: 0, end: 3 }],
      ['bytes=4-', { start: 4, end: 9 }],
      ['bytes=-3', { start: 7, end: 9 }],
      ['bytes=4-400', { start: 4, end: 9 }],
      ['bytes=10-', null],
      ['bytes=-0', null],
      ['bytes=5-4', undefined],
      ['bytes=-', undefined],
      ['bytes=0-1,4-5', undefined],
      ['bytes=0-', null, 0],
      ['bytes=-5', null, 0],
    ];
    for (const [header, range, sizeBytes = 10] of cases) {
      expect(parseByteRange(header, sizeBytes), header).deep.equal(range);
    }
  });

  it('Prefer sets how long the client waits, at most an hour', () => {
    const cases: [header: string | undefined, seconds: number | null][] = [
      [undefined, null],
      ['wait=0', 0],
      ['respond-async, wait=10', 10],
      ['respond-async; Wait = "7"', 7],
      ['wait=999999', 3_600],
      ['wait=-1', null],
      ['await=5', null],
    ];
    for (const [header, seconds] of cases) expect(preferredWaitSeconds(header), header).equal(seconds);
  });

  it('Cache-Control asks for fresh results only with no-cache', () => {
    for (const header of ['no-cache', 'No-Cache', 'max-age=0, no-cache']) {
      expect(isNoCacheRequested(header), header).equal(true);
    }
    for (const header of [undefined, '', 'max-age=0', 'no-cache="field"', 'x-no-cache']) {
      expect(isNoCacheRequested(header), header).equal(false);
    }
  });
});

describe('the network of a client for rate limits', () => {
  it('is its IPv4 address, or the /56 prefix of its IPv6 address; IPv6 networks in one /48 are one site', () => {
    const cases: [address: string | undefined, network: string][] = [
      ['203.0.113.7', '203.0.113.7'],
      ['::ffff:203.0.113.7', '203.0.113.7'],
      ['2001:db8:1:2:3:4:5:6', '2001:db8:1:0::/56'],
      ['2001:0DB8:0001:02ff::1', '2001:db8:1:200::/56'],
      ['::1', '0:0:0:0::/56'],
      ['fe80::1%eth0', 'fe80:0:0:0::/56'],
      [undefined, 'unknown'],
    ];
    for (const [address, network] of cases) expect(networkOfClientAddress(address), address).equal(network);
    const sites = ['2001:db8:1:2ff::1', '203.0.113.7', '::ffff:203.0.113.7'].map(sitePrefixOfIpv6Address);
    expect(sites).deep.equal(['2001:db8:1::/48', null, null]);
  });
});

describe('pagination cursors', () => {
  const cursors = createCursorCodec('a signing key of the tests, long enough');
  const position = { sortKey: '2026-01-02T03:04:05.123456Z', id: '01890000-0000-7000-8000-000000000000' };
  const list = ['chats', { agentId: null, mine: true }];
  const cursor = cursors.encode(position, list) ?? '';

  it('decode to the position for which they were created, whatever the order of the filters', () => {
    expect(cursor).match(/^v1\.[\w-]+\.[\w-]{22}$/);
    expect(cursors.decode(cursor, ['chats', { mine: true, agentId: null }])).deep.equal(position);
    // The start and the end of a list.
    expect(cursors.encode(null, list)).equal(null);
    expect(cursors.decode(undefined, list)).equal(null);
  });

  it('are rejected if they were changed or belong to another list or signing key', () => {
    const [version, payload = '', signature = ''] = cursor.split('.');
    const foreign = createCursorCodec('another signing key, also long enough').encode(position, list) ?? '';
    const refused: [cursor: string, list: unknown][] = [
      ['hello', list],
      ['', list],
      [`${version}.${payload.slice(0, -2)}AA.${signature}`, list],
      [cursor.slice(0, -1), list],
      [cursor.replace('v1', 'v2'), list],
      [foreign, list],
      [cursor, ['chats', { agentId: 'x', mine: true }]],
    ];
    for (const [text, usedFor] of refused) {
      expect(() => cursors.decode(text, usedFor), text)
        .throw()
        .with.property('code', 'invalid_cursor');
    }
  });
});
