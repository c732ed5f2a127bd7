import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { decodeJwt, importJWK, type JWTPayload, SignJWT, UnsecuredJWT } from 'jose';
import type { ProviderAccount } from '../../scripts/identity-provider/account.ts';
import { createIdentityProvider } from '../../scripts/identity-provider/identity-provider.ts';
import { newIdTokenKey } from '../../scripts/identity-provider/provider-folder.ts';
import type { Middleware } from '../../scripts/identity-provider/serve-pages.ts';
import { freshEmail } from './builders.ts';

const ROUTES = {
  '/.well-known/openid-configuration': 'discovery',
  '/jwks': 'jwks',
  '/auth': 'authorization',
  '/token': 'token',
  '/me': 'userinfo',
} as const;

export type ProviderRoute = (typeof ROUTES)[keyof typeof ROUTES];

type Answer = { status: number; body?: unknown; headers?: Record<string, string> };

/** What a provider that is broken, or not the one that it says, does otherwise. */
export type Tampering = {
  /** Other claims of the ID token, signed by the provider's own key. */
  idToken?: (claims: JWTPayload) => JWTPayload;
  /** The ID token is signed by a key that nobody has published, under the id of the real one, or not at all. */
  signature?: 'other_key' | 'none';
  /** Another answer of the userinfo endpoint; a text is no JSON. */
  userinfo?: (claims: Record<string, unknown>) => Record<string, unknown> | string;
  /** A status, no answer ever, or a connection that breaks off. */
  answers?: Partial<Record<ProviderRoute, Answer | 'silence' | 'cut'>>;
};

/** Somebody at the provider; `email` is what he signs in with there. */
export type IdentityProviderAccount = ProviderAccount & { email: string };

export type IdentityProvider = {
  issuer: string;
  client: { id: string; secret: string };
  /** The settings of the service, without those of the way back. */
  settings: { SSO_ISSUER: string; SSO_CLIENT_ID: string; SSO_CLIENT_SECRET: string };
  /** @param claims `email: null` is an account without that claim */
  addAccount(claims?: {
    sub?: string;
    email?: string | null;
    emailVerified?: boolean;
    givenName?: string;
    familyName?: string;
    picture?: string;
  }): IdentityProviderAccount;
  /** Which routes were asked, oldest first. */
  calls: ProviderRoute[];
  /** From now on it does these things; nothing of what it did before. */
  tamper(tampering: Tampering): void;
  close(): Promise<void>;
};

// Making a key takes longer than a test should.
const [signingKey, otherKey] = await Promise.all([newIdTokenKey(), newIdTokenKey()]);

/** A real OpenID provider on this machine, which can be told to lie. */
export async function startIdentityProvider(options: {
  redirectOrigins: readonly string[];
}): Promise<IdentityProvider> {
  const accounts: ProviderAccount[] = [];
  const calls: ProviderRoute[] = [];
  let tampering: Tampering = {};

  // An issuer names its own port, so it has to be there first.
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const client = { id: 'service-under-test', secret: randomBytes(32).toString('base64url') };
  const provider = createIdentityProvider({
    issuer,
    client,
    redirectOrigins: options.redirectOrigins,
    signingKey,
    cookieKey: randomBytes(32).toString('base64url'),
    accounts,
    apiUrl: 'http://service.example',
  });
  provider.use(tamperWith(() => tampering, calls));
  server.on('request', provider.callback());

  return {
    issuer,
    client,
    settings: { SSO_ISSUER: issuer, SSO_CLIENT_ID: client.id, SSO_CLIENT_SECRET: client.secret },
    addAccount({ sub = randomUUID(), email, emailVerified = true, givenName, familyName, picture } = {}) {
      const login = (email ?? freshEmail()).toLowerCase();
      const names = { given_name: givenName, family_name: familyName, picture };
      const address = email === null ? {} : { email: email ?? login, email_verified: emailVerified };
      const account = { sub, login, password: 'Correct-horse-1', claims: { ...address, ...names }, email: login };
      accounts.push(account);
      return account;
    },
    calls,
    tamper: (next) => {
      tampering = next;
    },
    close: () => close(server),
  };
}

function tamperWith(current: () => Tampering, calls: ProviderRoute[]): Middleware {
  return async (context, next) => {
    const route = Object.entries(ROUTES).find(([path]) => path === context.path)?.[1];
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
    const honest: unknown = context.body;
    if (context.status !== 200) return;
    if (route === 'userinfo' && userinfo) {
      const answer = userinfo({ ...Object(honest) });
      if (typeof answer === 'string') context.type = 'html';
      context.body = answer;
    }
    if (route === 'token' && (idToken || signature)) {
      const claims = decodeJwt(Object(honest).id_token);
      context.body = { ...Object(honest), id_token: await sign(idToken ? idToken(claims) : claims, signature) };
    }
  };
}

async function sign(claims: JWTPayload, signature: Tampering['signature']): Promise<string> {
  if (signature === 'none') return new UnsecuredJWT(claims).encode();
  const key = await importJWK(signature === 'other_key' ? otherKey : signingKey, 'RS256');
  return new SignJWT(claims).setProtectedHeader({ alg: 'RS256', kid: String(signingKey.kid) }).sign(key);
}

async function close(server: Server): Promise<void> {
  const closed = once(server, 'close');
  server.close();
  server.closeAllConnections();
  await closed;
}
