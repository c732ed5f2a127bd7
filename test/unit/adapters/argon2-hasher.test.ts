import { hash } from '@node-rs/argon2';
import { expect } from 'chai';
import { createArgon2Hasher } from '#src/adapters/passwords/argon2-hasher.ts';

describe('Argon2 hasher', () => {
  const hasher = createArgon2Hasher({ memoryMiB: 19 });

  it('knows a password again, and no other', async () => {
    const stored = await hasher.hash('Correct-horse-1');
    expect(stored).to.match(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/);
    expect(await hasher.verify(stored, 'Correct-horse-1')).to.equal(true);
    expect(await hasher.verify(stored, 'Correct-horse-2')).to.equal(false);
  });

  it('knows a hash that is not as it would be made now', async () => {
    expect(hasher.isOutdated(await hasher.hash('Correct-horse-1'))).to.equal(false);
    expect(hasher.isOutdated(await hash('Correct-horse-1', { memoryCost: 8_192, timeCost: 1 }))).to.equal(true);
    expect(hasher.isOutdated('$2b$12$another-kind-of-hash')).to.equal(true);
  });

  it('compares with something when there is no account', async () => {
    expect(await hasher.verify(null, '')).to.equal(false);
    expect(await hasher.verify(null, 'Correct-horse-1')).to.equal(false);
  });
});
