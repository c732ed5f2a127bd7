import { expect } from 'chai';
import { createArgon2Hasher } from '#src/adapters/passwords/argon2-hasher.ts';

describe('Argon2 hasher', () => {
  const hasher = createArgon2Hasher();

  it('knows a password again, and no other', async () => {
    const stored = await hasher.hash('Correct-horse-1');
    expect(stored).to.match(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/);
    expect(await hasher.verify(stored, 'Correct-horse-1')).to.equal(true);
    expect(await hasher.verify(stored, 'Correct-horse-2')).to.equal(false);
  });

  it('compares with something when there is no account', async () => {
    expect(await hasher.verify(null, '')).to.equal(false);
    expect(await hasher.verify(null, 'Correct-horse-1')).to.equal(false);
  });
});
