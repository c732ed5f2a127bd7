import { createHash, randomBytes } from 'node:crypto';
import type { ProviderCall, ProviderReply } from './provider-server.ts';

type Code = Record<'account' | 'challenge' | 'redirectUri', string> &
  Record<'isOffline' | 'isUsed', boolean> & { scopes: string[] };
type Grant = { account: string; scopes: string[]; isRevoked: boolean };

/** How the user answers the consent page. Each consent without `account` is of a new account. */
export type Choice = { account?: string; scopes?: string[]; isDenied?: boolean };

/** The account and scopes of an access token. */
export type Caller = { account: string; scopes: readonly string[] };

/** What differs between the providers' OAuth servers. */
type OAuthHabits = {
  client: { id: string; secret: string };
  paths: { authorize: string; token: string; revoke?: string };
  /** Whether an authorization request with these parameters returns a refresh token. */
  isOffline(parameters: URLSearchParams): boolean;
  /** Scopes of the token, from those requested. */
  granted?(scopes: string[]): string[];
  /** Additional parameters of the callback URL. */
  callback?: Readonly<Record<string, string>>;
  /** Additional fields of token responses. */
  token?(account: string): object;
  /** Issues a new refresh token at each use from the start, as `rotate` does later. */
  isRotating?: boolean;
};

/** Controls of a fake OAuth server for tests. */
export type FakeGrants = ReturnType<typeof createFakeOAuth>['grants'];

/** A fake OAuth server with PKCE, refresh tokens and revocation. */
export function createFakeOAuth(habits: OAuthHabits) {
  const { client, paths, granted = (scopes) => scopes } = habits;
  const codes = new Map<string, Code>();
  const refreshTokens = new Map<string, { grant: Grant; isSpent: boolean }>();
  const accessTokens = new Map<string, { grant: Grant; expiresAtMs: number }>();
  const granting: Grant[] = [];
  const secrets: string[] = [client.secret];
  let choice: Choice = {};
  let isRotating = habits.isRotating ?? false;
  let lifetime = 3_600;

  const newSecret = (kind: string) => {
    const secret = `${kind}-${randomBytes(16).toString('base64url')}`;
    secrets.push(secret);
    return secret;
  };

  /** The consent page, answered by `choice`. */
  function authorize({ url }: ProviderCall): ProviderReply {
    const of = (name: string) => url.searchParams.get(name) ?? '';
    const isSound =
      of('client_id') === client.id &&
      of('response_type') === 'code' &&
      of('code_challenge_method') === 'S256' &&
      /^[\w-]{43}$/.test(of('code_challenge'));
    if (!isSound) return { status: 400, text: 'Error 400: invalid_request' };
    const back = new URL(of('redirect_uri'));
    back.searchParams.set('state', of('state'));
    const answer = choice.isDenied ? { error: 'access_denied' } : allow(url.searchParams);
    for (const [name, value] of Object.entries(answer)) back.searchParams.set(name, value);
    return { status: 302, headers: { location: back.href } };
  }

  /** @returns the parameters of the callback */
  function allow(parameters: URLSearchParams): Record<string, string> {
    const of = (name: string) => parameters.get(name) ?? '';
    const asked = of('scope').split(' ').filter(Boolean);
    const scopes = choice.scopes?.filter((scope) => asked.includes(scope)) ?? asked;
    const code = newSecret('code');
    const facts = { challenge: of('code_challenge'), redirectUri: of('redirect_uri'), scopes: granted(scopes) };
    const isOffline = habits.isOffline(parameters);
    codes.set(code, { account: choice.account ?? code, ...facts, isOffline, isUsed: false });
    return { code, scope: scopes.join(' '), ...habits.callback };
  }

  const refuse = (error: string, status = 400): ProviderReply => ({
    status,
    json: { error, error_description: `Bad Request (${error})` },
  });

  function newGrant(account: string, scopes: string[]): Grant {
    const grant = { account, scopes, isRevoked: false };
    granting.push(grant);
    return grant;
  }

  function newAccessToken(grant: Grant): string {
    const token = newSecret('access');
    accessTokens.set(token, { grant, expiresAtMs: Date.now() + lifetime * 1_000 });
    return token;
  }

  function issue(grant: Grant, refreshToken?: string): ProviderReply {
    const json = {
      ...{ access_token: newAccessToken(grant), expires_in: lifetime, scope: grant.scopes.join(' ') },
      ...{ token_type: 'Bearer', ...habits.token?.(grant.account) },
      ...(refreshToken !== undefined && { refresh_token: refreshToken }),
    };
    return { status: 200, json };
  }

  function newRefreshToken(grant: Grant): string {
    const token = newSecret('refresh');
    refreshTokens.set(token, { grant, isSpent: false });
    return token;
  }

  function token({ method, body }: ProviderCall): ProviderReply {
    const form = new URLSearchParams(body);
    const of = (name: string) => form.get(name) ?? '';
    if (method !== 'POST') return refuse('invalid_request', 405);
    if (of('client_id') !== client.id || of('client_secret') !== client.secret) return refuse('invalid_client', 401);
    if (of('grant_type') === 'authorization_code') {
      const code = codes.get(of('code'));
      const challenge = createHash('sha256').update(of('code_verifier')).digest('base64url');
      if (code === undefined || code.isUsed || code.challenge !== challenge) return refuse('invalid_grant');
      if (code.redirectUri !== of('redirect_uri')) return refuse('redirect_uri_mismatch');
      code.isUsed = true;
      const grant = newGrant(code.account, code.scopes);
      return issue(grant, code.isOffline ? newRefreshToken(grant) : undefined);
    }
    if (of('grant_type') !== 'refresh_token') return refuse('unsupported_grant_type');
    const known = refreshTokens.get(of('refresh_token'));
    if (known === undefined || known.grant.isRevoked) return refuse('invalid_grant');
    if (known.isSpent) {
      known.grant.isRevoked = true;
      return refuse('invalid_grant');
    }
    if (!isRotating) return issue(known.grant);
    known.isSpent = true;
    return issue(known.grant, newRefreshToken(known.grant));
  }

  function revoke({ body }: ProviderCall): ProviderReply {
    const given = new URLSearchParams(body).get('token') ?? '';
    const grant = refreshTokens.get(given)?.grant ?? accessTokens.get(given)?.grant;
    if (grant === undefined || grant.isRevoked) return refuse('invalid_token');
    end(grant);
    return { status: 200, json: {} };
  }

  /** Revokes all grants of the account, as Google does. */
  function end({ account }: Grant): void {
    for (const each of granting) each.isRevoked ||= each.account === account;
  }

  const tokenOf = ({ headers }: ProviderCall) => /^Bearer (.+)$/.exec(headers.authorization ?? '')?.[1] ?? '';

  const grants = {
    client,
    /** The client secret, and all tokens and codes issued so far. */
    secrets,
    /** Acts as the browser on the consent page. Returns the callback URL. */
    async consent(authorizeUrl: string, chosen: Choice = {}): Promise<URL> {
      choice = chosen;
      const response = await fetch(authorizeUrl, { redirect: 'manual' });
      const location = response.headers.get('location');
      if (location === null) throw new Error(`the consent page answers ${response.status}`);
      return new URL(location);
    },
    /** Issues an access token without a consent. */
    accessToken: (scopes: readonly string[], account = 'account-1') => newAccessToken(newGrant(account, [...scopes])),
    /** Expires all present access tokens. */
    expireTokens(): void {
      for (const each of accessTokens.values()) each.expiresAtMs = 0;
    },
    /** Revokes all grants, as a user can do in the account settings of the provider. */
    revokeGrants(): void {
      for (const grant of granting) grant.isRevoked = true;
    },
    /** From now on each use issues a new refresh token, and the use of an old one revokes its grant. */
    rotate(isOn: boolean): void {
      isRotating = isOn;
    },
    /** Sets the lifetime of new access tokens. */
    lifetimeSeconds(seconds: number): void {
      lifetime = seconds;
    },
    /** Counts grants with a refresh token that are not revoked. */
    liveGrants: () => new Set([...refreshTokens.values()].map(({ grant }) => grant).filter((g) => !g.isRevoked)).size,
  };

  return {
    grants,
    /** Returns null for requests to other endpoints. */
    answer(call: ProviderCall): ProviderReply | null {
      const { pathname } = call.url;
      if (pathname === paths.authorize) return authorize(call);
      if (pathname === paths.token) return token(call);
      return pathname === paths.revoke ? revoke(call) : null;
    },
    /** Returns null without a valid access token. */
    callerOf(call: ProviderCall): Caller | null {
      const given = accessTokens.get(tokenOf(call));
      return given === undefined || given.grant.isRevoked || given.expiresAtMs < Date.now() ? null : given.grant;
    },
    /** Revokes the grant of the access token. */
    endGrantOf(call: ProviderCall): void {
      const given = accessTokens.get(tokenOf(call));
      if (given !== undefined) end(given.grant);
    },
  };
}
