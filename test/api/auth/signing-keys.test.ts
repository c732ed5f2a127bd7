import { createPublicKey, generateKeyPairSync } from 'node:crypto';
import { expect } from 'chai';
import { createRemoteJWKSet, decodeProtectedHeader, jwtVerify } from 'jose';
import { keySetResponse, tokenResponse } from '#src/modules/auth/auth.schema.ts';
import { type Stack, startStack } from '#test/support/stack.ts';

describe('the keys that sign access tokens', () => {
  const aPrivateKey = () =>
    generateKeyPairSync('rsa', {
      modulusLength: 2_048,
      privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
      publicKeyEncoding: { type: 'spki', format: 'pem' },
    }).privateKey;
  const publicHalf = (pem: string) => createPublicKey(pem).export({ type: 'spki', format: 'pem' }).toString();
  const [old, next] = [aPrivateKey(), aPrivateKey()];

  const started: Stack[] = [];
  after(async () => {
    for (const stack of started.toReversed()) await stack.close();
  });

  /** Starts the service, each time on the same database. */
  async function start(settings: Record<string, string>): Promise<Stack> {
    const database = started[0] && { DATABASE_URL: started[0].config.database.url };
    const stack = await startStack({ ...database, ...settings }, { workers: false });
    started.push(stack);
    return stack;
  }
  const keyIds = async ({ anonymous }: Stack) => {
    const { body, headers } = await anonymous.get('/.well-known/jwks.json', 200);
    expect(headers.get('cache-control')).contain('max-age');
    return keySetResponse.parse(body).keys.map(({ kid }) => kid);
  };

  it('are published, and can be rotated as docs/operators.md describes without ending sessions', async () => {
    const first = await start({ JWT_PRIVATE_KEY: old });
    const member = await first.signUp();
    const statusOf = async ({ anonymous }: Stack, token: string) =>
      (await anonymous.withToken(token).raw('/folders')).status;
    const signIn = async ({ anonymous }: Stack) => {
      const credentials = { username: member.email, password: member.password };
      return tokenResponse.parse((await anonymous.post('/auth/login', credentials, 200)).body).access_token;
    };
    const [oldId] = await keyIds(first);

    const announced = await start({ JWT_PRIVATE_KEY: old, JWT_VERIFY_KEYS: publicHalf(next) });
    const before = await signIn(announced);
    expect(decodeProtectedHeader(before).kid).equal(oldId);

    const changed = await start({ JWT_PRIVATE_KEY: next, JWT_VERIFY_KEYS: publicHalf(old) });
    const after = await signIn(changed);
    const [newId] = await keyIds(changed);
    expect(decodeProtectedHeader(after).kid).equal(newId).and.not.equal(oldId);
    for (const stack of [announced, changed]) {
      expect(await keyIds(stack)).have.members([oldId, newId]);
      const keys = createRemoteJWKSet(new URL(`${stack.baseUrl}/.well-known/jwks.json`));
      for (const token of [before, after]) {
        expect(await statusOf(stack, token)).equal(200);
        const { payload } = await jwtVerify(token, keys, { typ: 'at+jwt', algorithms: ['RS256'] });
        expect(payload.sub).equal(member.userId);
      }
    }

    const over = await start({ JWT_PRIVATE_KEY: next });
    expect(await keyIds(over)).deep.equal([newId]);
    expect([await statusOf(over, before), await statusOf(over, after)]).deep.equal([401, 200]);
    await over.anonymous.post('/auth/refresh_tokens', { refresh_token: member.refreshToken }, 200);
  });
});
