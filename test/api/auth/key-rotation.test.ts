import { createPublicKey, generateKeyPairSync } from 'node:crypto';
import { expect } from 'chai';
import { decodeProtectedHeader } from 'jose';
import { keySetResponse, tokenResponse } from '#src/modules/auth/auth.schema.ts';
import { type Stack, startStack } from '#test/support/stack.ts';

/** The steps of docs/operators.md, each a start of the service on the same database. */
describe('rotation of the key that signs access tokens', () => {
  const privateKey = () =>
    generateKeyPairSync('rsa', {
      modulusLength: 2_048,
      privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
      publicKeyEncoding: { type: 'spki', format: 'pem' },
    }).privateKey;
  const publicHalf = (pem: string) => createPublicKey(pem).export({ type: 'spki', format: 'pem' }).toString();
  const [old, next] = [privateKey(), privateKey()];

  let first: Stack;
  const started: Stack[] = [];
  before(async () => {
    first = await startStack({ JWT_PRIVATE_KEY: old }, { workers: false });
  });
  after(async () => {
    for (const stack of [...started, first]) await stack.close();
  });

  async function restart(settings: Record<string, string>): Promise<Stack> {
    const stack = await startStack({ DATABASE_URL: first.config.database.url, ...settings }, { workers: false });
    started.push(stack);
    return stack;
  }
  const keyIds = async ({ anonymous }: Stack) => {
    const { keys } = keySetResponse.parse((await anonymous.get('/.well-known/jwks.json', 200)).body);
    return keys.map(({ kid }) => kid);
  };

  it('interrupts no session: old tokens work until they expire, and new ones at every instance', async () => {
    const member = await first.signUp();
    const statusOf = async (stack: Stack, token: string) =>
      (await stack.anonymous.withToken(token).raw('/folders')).status;
    const signIn = async ({ anonymous }: Stack) => {
      const credentials = { username: member.email, password: member.password };
      return tokenResponse.parse((await anonymous.post('/auth/login', credentials, 200)).body).access_token;
    };
    const [oldId] = await keyIds(first);

    const announced = await restart({ JWT_PRIVATE_KEY: old, JWT_VERIFY_KEYS: publicHalf(next) });
    const before = await signIn(announced);
    expect(decodeProtectedHeader(before).kid).to.equal(oldId);

    const changed = await restart({ JWT_PRIVATE_KEY: next, JWT_VERIFY_KEYS: publicHalf(old) });
    const after = await signIn(changed);
    const [newId] = await keyIds(changed);
    expect(decodeProtectedHeader(after).kid).to.equal(newId).and.not.to.equal(oldId);
    for (const stack of [announced, changed]) {
      expect(await keyIds(stack)).to.have.members([oldId, newId]);
      for (const token of [before, after]) expect(await statusOf(stack, token)).to.equal(200);
    }

    const over = await restart({ JWT_PRIVATE_KEY: next });
    expect(await keyIds(over)).to.deep.equal([newId]);
    expect(await statusOf(over, before)).to.equal(401);
    expect(await statusOf(over, after)).to.equal(200);
    const { refreshToken } = member;
    await over.anonymous.post('/auth/refresh_tokens', { refresh_token: refreshToken }, 200);
  });
});
