import { hash } from '@node-rs/argon2';
import { expect } from 'chai';
import { createArgon2Hasher } from '#src/adapters/passwords/argon2-hasher.ts';

describe('the Argon2 password hasher', () => {
  const hasher = createArgon2Hasher({ memoryMiB: 19 });

  it('accepts the right password and rejects wrong passwords', async () => {
    const stored = await hasher.hash('Correct-horse-1', 'any');
    expect(stored).to.match(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/);
    expect(await hasher.verify(stored, 'Correct-horse-1', 'any')).to.equal(true);
    expect(await hasher.verify(stored, 'Correct-horse-2', 'any')).to.equal(false);
  });

  it('reports a hash with other parameters as outdated', async () => {
    expect(hasher.isOutdated(await hasher.hash('Correct-horse-1', 'any'))).to.equal(false);
    expect(hasher.isOutdated(await hash('Correct-horse-1', { memoryCost: 8_192, timeCost: 1 }))).to.equal(true);
    expect(hasher.isOutdated('$2b$12$another-kind-of-hash')).to.equal(true);
  });

  it('computes a hash even if the account does not exist', async () => {
    expect(await hasher.verify(null, '', 'any')).to.equal(false);
    expect(await hasher.verify(null, 'Correct-horse-1', 'any')).to.equal(false);
  });

  it('rejects a caller with too many waiting checks, and serves other callers', async () => {
    const quick = createArgon2Hasher({ memoryMiB: 1 });
    const asked = Array.from({ length: 60 }, () => quick.hash('Correct-horse-1', 'busy'));
    const other = quick.hash('Correct-horse-1', 'other');
    const outcomes = await Promise.allSettled(asked);
    const refusals = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason.code] : []));
    // One or two are hashed at once, depending on the cores, and fifty wait.
    expect(refusals).deep.equal(Array(refusals.length).fill('service_unavailable')).length.within(8, 9);
    expect(await other).match(/^\$argon2id/);
  });
});
