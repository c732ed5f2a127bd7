import { expect } from 'chai';
import { findSecrets } from '#test/support/secret-search.ts';

describe('the search for secrets', () => {
  const secret = 'cA1!k9/Qz+7"w0-longer_than.this';
  const found = (text: string) => findSecrets([{ name: 'key', value: secret }], [{ name: 'log', text }]).length === 1;

  it('knows a secret as it is, in an address, in JSON and as bytes of a row', () => {
    expect(found(`about ${secret}, they say`)).equal(true);
    expect(found(`https://u:${encodeURIComponent(secret)}@host`)).equal(true);
    expect(found(JSON.stringify({ err: { message: secret } }))).equal(true);
    expect(found(`\\x00${Buffer.from(secret).toString('hex')}00`)).equal(true);
  });

  it('knows it in base64, whatever stands before and behind it', () => {
    for (const before of ['', 'a', 'ab', 'abc', 'user:']) {
      for (const behind of ['', 'z', 'zz', 'zzz']) {
        const bytes = Buffer.from(`${before}${secret}${behind}`);
        expect(found(bytes.toString('base64')), `${before}…${behind}`).equal(true);
        expect(found(bytes.toString('base64url')), `${before}…${behind}`).equal(true);
      }
    }
  });

  it('finds nothing where there is none', () => {
    expect(found(secret.slice(0, -1))).equal(false);
    expect(found('')).equal(false);
  });
});
