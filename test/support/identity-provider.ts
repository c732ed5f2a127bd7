import { randomBytes, randomUUID } from 'node:crypto';
import { decodeJwt, importJWK, type JWTPayload, SignJWT, UnsecuredJWT } from 'jose';
import type { ProviderAccount } from '../../scripts/identity-provider/account.ts';
import { createIdentityProvider } from '../../scripts/identity-provider/identity-provider.ts';
import { newIdTokenKey } from '../../scripts/identity-provider/provider-folder.ts';
import type { Middleware } from '../../scripts/identity-provider/serve-pages.ts';
import { freshEmail } from './builders.ts';
import { serveLocally } from './local-server.ts';

const routes = {
  '/.well-known/openid-configuration': 'discovery',
  '/jwks': 'jwks',
  '/auth': 'authorization',
  '/token': 'token',
  '/me': 'userinfo',
} as const;
type ProviderRoute = (typeof routes)[keyof typeof routes];

type Answer = { status: number; body?: unknown; headers?: Record<string, string> };

/** How a false or broken provider differs from an honest one. */
export type Tampering = {
  /** Other claims of the ID token, signed by the provider's own key. */
  idToken?: (claims: JWTPayload) => JWTPayload;
  /** The ID token is signed by an unpublished key under the id of the real one, or not at all. */
  signature?: 'other_key' | 'none';
  /** Another answer of the userinfo endpoint; a text is no JSON. */
  userinfo?: (claims: Record<string, unknown>) => Record<string, unknown> | string;
  /** Other answers: a status, none ever, or a lost connection. */
  answers?: Partial<Record<ProviderRoute, Answer | 'silence' | 'cut'>>;
};

/** An account at the provider; `email` is also its login. */
export type IdentityProviderAccount = ProviderAccount & { email: string };

type AccountFields = { sub?: string; email?: string | null; emailVerified?: boolean } & Partial<
  Record<'givenName' | 'familyName' | 'picture', string>
>;

export type IdentityProvider = Awaited<ReturnType<typeof startIdentityProvider>>;

// Making a key takes longer than a test should.
const [signingKey, otherKey] = await Promise.all([newIdTokenKey(), newIdTokenKey()]);

/** A real OpenID provider on this machine, which can be told to lie. */
export async function startIdentityProvider({ redirectOrigins }: { redirectOrigins: readonly string[] }) {
  const accounts: ProviderAccount[] = [];
  const calls: ProviderRoute[] = [];
  let tampering: Tampering = {};

  // An issuer names its own port, so the server has to listen first.
  const { server, baseUrl: issuer, close } = await serveLocally();
  const client = { id: 'service-under-test', secret: randomBytes(32).toString('base64url') };
  const cookieKey = randomBytes(32).toString('base64url');
  const apiUrl = 'http://service.example';
  const provider = createIdentityProvider({ issuer, client, redirectOrigins, signingKey, cookieKey, accounts, apiUrl });
  provider.use(tamperWith(() => tampering, calls));
  server.on('request', provider.callback());

  return {
    issuer,
    client,
    /** The settings of the service, without redirect URIs. */
    settings: { SSO_ISSUER: issuer, SSO_CLIENT_ID: client.id, SSO_CLIENT_SECRET: client.secret },
    calls,
    /** `email: null` makes an account without that claim. */
    addAccount(fields: AccountFields = {}): IdentityProviderAccount {
      const { sub = randomUUID(), email, emailVerified = true, ...profile } = fields;
      const login = (email ?? freshEmail()).toLowerCase();
      const { givenName: given_name, familyName: family_name, picture } = profile;
      const address = email === null ? {} : { email: email ?? login, email_verified: emailVerified };
      const claims = { ...address, given_name, family_name, picture };
      const account = { sub, login, password: 'Correct-horse-1', claims, email: login };
      accounts.push(account);
      return account;
    },
    tamper: (next: Tampering) => {
      tampering = next;
    },
    close,
  };
}

function tamperWith(current: () => Tampering, calls: ProviderRoute[]): Middleware {
  return async (context, next) => {
    const route = Object.entries(routes).find(([path]) => path === context.path)?.[1];
    if (route === undefined) return next();
    calls.push(route);
    const { idToken, signature, userinfo, answers } = current();
    const answer = answers?.[route];
    if (answer === 'silence' || answer === 'cut') {
      context.respond = false;
      if (answer === 'cut') context.req.socket.destroy();
      return;
    }
    if (answer !== undefined) {
      context.body = answer.body ?? 'out of order';
      context.status = answer.status;
      context.set(answer.headers ?? {});
      return;
    }
    await next();
    if (context.status !== 200) return;
    const honest = Object(context.body);
    if (route === 'userinfo' && userinfo) {
      const body = userinfo({ ...honest });
      if (typeof body === 'string') context.type = 'html';
      context.body = body;
    }
    if (route === 'token' && (idToken || signature)) {
      const claims = decodeJwt(honest.id_token);
      context.body = { ...honest, id_token: await sign(idToken ? idToken(claims) : claims, signature) };
    }
  };
}

async function sign(claims: JWTPayload, signature: Tampering['signature']): Promise<string> {
  if (signature === 'none') return new UnsecuredJWT(claims).encode();
  const key = await importJWK(signature === 'other_key' ? otherKey : signingKey, 'RS256');
  return new SignJWT(claims).setProtectedHeader({ alg: 'RS256', kid: String(signingKey.kid) }).sign(key);
}
