import { hash, randomBytes } from 'node:crypto';
import { type ProviderCall, type ProviderReply, startProviderServer } from './provider-server.ts';

/** How the user answers the consent page. Each consent without `account` is of a new account. */
export type Choice = { account?: string; scopes?: string[]; isDenied?: boolean };

export type Caller = { account: string; scopes: readonly string[] };

type Grant = Caller & { isOffline: boolean; isRevoked: boolean };
type Token = {
  kind: 'code' | 'access' | 'refresh';
  grant: Grant;
  asked: URLSearchParams;
  isSpent: boolean;
  expiresAtMs: number;
};

type ProviderOptions = {
  clientId: string;
  paths: { authorize: string; token: string; revoke?: string };
  /** Whether an authorization request with these parameters returns a refresh token. */
  isOffline(parameters: URLSearchParams): boolean;
  /** A scope that can be requested, but is not in the token. */
  pseudoScope?: string;
  /** Additional parameters of the callback URL. */
  callback?: Readonly<Record<string, string>>;
  isRotating?: boolean;
  /** Beginning of the paths of the API, and its answer to a call without a valid access token. */
  api: string;
  unauthorized: ProviderReply;
};

/** A fake provider, and the controls that tests have over its server and its grants. */
export type FakeProvider = Awaited<ReturnType<typeof startFakeProvider>>;

/** A fake OAuth server with PKCE, refresh tokens and revocation, and the API that its access tokens open. */
export async function startFakeProvider(
  options: ProviderOptions,
  answer: (call: ProviderCall, caller: Caller) => ProviderReply,
) {
  const { paths, unauthorized } = options;
  const client = { id: options.clientId, secret: `client-secret-${randomBytes(8).toString('hex')}` };
  const tokens = new Map<string, Token>();
  const secrets: string[] = [client.secret];
  const issuing = { isRotating: options.isRotating ?? false, lifetimeSeconds: 3_600 };

  function newToken(kind: Token['kind'], grant: Grant, asked = new URLSearchParams()): string {
    const token = `${kind}-${randomBytes(16).toString('base64url')}`;
    const expiresAtMs = Date.now() + issuing.lifetimeSeconds * 1_000;
    tokens.set(token, { kind, grant, asked, isSpent: false, expiresAtMs });
    secrets.push(token);
    return token;
  }
  const granted = () => [...tokens.values()].filter(({ kind }) => kind !== 'code');
  const refuse = (error: string, status = 400): ProviderReply => ({
    status,
    json: { error, error_description: `Bad Request (${error})` },
  });

  function issue(grant: Grant, hasRefreshToken: boolean): ProviderReply {
    const json = {
      access_token: newToken('access', grant),
      expires_in: issuing.lifetimeSeconds,
      scope: grant.scopes.join(' '),
      token_type: 'Bearer',
      ...(hasRefreshToken && { refresh_token: newToken('refresh', grant) }),
    };
    return { status: 200, json };
  }

  function exchange({ body }: ProviderCall): ProviderReply {
    const form = Object.fromEntries(new URLSearchParams(body));
    if (form.client_id !== client.id || form.client_secret !== client.secret) return refuse('invalid_client', 401);
    const isRefresh = form.grant_type === 'refresh_token';
    const given = tokens.get(String(isRefresh ? form.refresh_token : form.code));
    if (given?.kind !== (isRefresh ? 'refresh' : 'code') || given.grant.isRevoked) return refuse('invalid_grant');
    if (given.isSpent) {
      // Two parties have this refresh token.
      given.grant.isRevoked = isRefresh;
      return refuse('invalid_grant');
    }
    if (isRefresh) {
      given.isSpent = issuing.isRotating;
      return issue(given.grant, given.isSpent);
    }
    const challenge = hash('sha256', String(form.code_verifier), 'base64url');
    if (given.asked.get('code_challenge') !== challenge) return refuse('invalid_grant');
    if (given.asked.get('redirect_uri') !== form.redirect_uri) return refuse('redirect_uri_mismatch');
    given.isSpent = true;
    return issue({ ...given.grant }, given.grant.isOffline);
  }

  const bearerOf = ({ headers }: ProviderCall) => /^Bearer (.+)$/.exec(headers.authorization ?? '')?.[1] ?? '';

  function revoke(call: ProviderCall): ProviderReply {
    const ended = tokens.get(new URLSearchParams(call.body).get('token') ?? bearerOf(call))?.grant;
    if (ended === undefined || ended.isRevoked) return refuse('invalid_token');
    for (const { grant } of granted()) grant.isRevoked ||= grant.account === ended.account;
    return { status: 200, json: {} };
  }

  const server = await startProviderServer((call) => {
    const { pathname } = call.url;
    if (pathname === paths.token) return exchange(call);
    if (pathname === paths.revoke) return revoke(call);
    if (!pathname.startsWith(options.api)) return { status: 404 };
    const given = tokens.get(bearerOf(call));
    const isValid = given?.kind === 'access' && !given.grant.isRevoked && given.expiresAtMs >= Date.now();
    return isValid ? answer(call, given.grant) : unauthorized;
  });

  return {
    ...server,
    client,
    /** The client secret, and all tokens and codes issued so far. */
    secrets,
    /** How tokens are issued from now on. If it rotates, the use of an old refresh token revokes its grant. */
    issuing,
    /** Acts as the consent page and the browser of the user. Returns the callback URL. */
    async consent(authorizeUrl: string, { account, scopes, isDenied }: Choice = {}): Promise<URL> {
      const { pathname, searchParams: asked } = new URL(authorizeUrl);
      const sound = { client_id: client.id, response_type: 'code', code_challenge_method: 'S256' };
      const isSound = Object.entries(sound).every(([name, value]) => asked.get(name) === value);
      if (pathname !== paths.authorize || !isSound) throw new Error(`no authorization request: ${authorizeUrl}`);
      const requested = (asked.get('scope') ?? '').split(' ').filter(Boolean);
      const allowed = requested.filter((scope) => scopes === undefined || scopes.includes(scope));
      const back = new URL(asked.get('redirect_uri') ?? '');
      const grant = {
        account: account ?? `account-${randomBytes(8).toString('hex')}`,
        scopes: allowed.filter((scope) => scope !== options.pseudoScope),
        isOffline: options.isOffline(asked),
        isRevoked: false,
      };
      const callback = isDenied
        ? { error: 'access_denied' }
        : { code: newToken('code', grant, asked), scope: allowed.join(' '), ...options.callback };
      for (const [name, value] of Object.entries({ state: asked.get('state') ?? '', ...callback })) {
        back.searchParams.set(name, value);
      }
      return back;
    },
    accessToken: (scopes: readonly string[], account = 'account-1') =>
      newToken('access', { account, scopes, isOffline: false, isRevoked: false }),
    expireTokens(): void {
      for (const token of granted()) token.expiresAtMs = 0;
    },
    /** Revokes all grants, as a user can do in the account settings of the provider. */
    revokeGrants(): void {
      for (const { grant } of granted()) grant.isRevoked = true;
    },
    /** Counts grants with a refresh token that are not revoked. */
    liveGrants: () =>
      new Set(granted().flatMap(({ kind, grant }) => (kind === 'refresh' && !grant.isRevoked ? [grant] : []))).size,
  };
}
