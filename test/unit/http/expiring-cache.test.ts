import { expect } from 'chai';
import { createExpiringCache } from '#src/http/request/authentication.ts';

describe('createExpiringCache', () => {
  function counting(maxEntries = 10) {
    let nowMs = 0;
    const loads: string[] = [];
    const cache = createExpiringCache<string>(maxEntries, () => nowMs);
    const get = (key: string) =>
      cache.get(key, async () => {
        loads.push(key);
        return { value: `${key}!`, expiresAtMs: nowMs + 5 };
      });
    return { get, loads, pass: (ms: number) => (nowMs += ms) };
  }

  it('loads once until an entry expires', async () => {
    const { get, loads, pass } = counting();
    expect([await get('a'), await get('a')]).to.deep.equal(['a!', 'a!']);
    pass(4);
    await get('a');
    expect(loads).to.have.length(1);
    pass(1);
    await get('a');
    expect(loads).to.have.length(2);
  });

  it('shares one load among concurrent callers', async () => {
    const { get, loads } = counting();
    await Promise.all([get('a'), get('a'), get('a')]);
    expect(loads).to.deep.equal(['a']);
  });

  it('does not cache a failed load', async () => {
    const cache = createExpiringCache<string>(10);
    const failed = await cache.get('a', () => Promise.reject(new Error('down'))).catch((error: Error) => error.message);
    expect(failed).to.equal('down');
    expect(await cache.get('a', async () => ({ value: 'up', expiresAtMs: Infinity }))).to.equal('up');
  });

  it('forgets matching entries and entries that are still loading', async () => {
    const cache = createExpiringCache<string>(10);
    const get = (key: string, value: string) => cache.get(key, async () => ({ value, expiresAtMs: Infinity }));
    await get('a', 'old');
    await get('b', 'old of b');
    const loading = get('c', 'old');
    cache.forget((value) => value === 'old');
    expect(await loading).to.equal('old');
    expect(await Promise.all(['a', 'b', 'c'].map((key) => get(key, 'new')))).deep.equal(['new', 'old of b', 'new']);
  });

  it('evicts the oldest entry when it is full', async () => {
    const { get, loads } = counting(2);
    for (const key of ['a', 'b', 'c', 'b', 'c', 'a']) await get(key);
    expect(loads).to.deep.equal(['a', 'b', 'c', 'a']);
  });
});
