import * as openid from 'openid-client';
import { type AuthenticateOptions, Strategy, type VerifyFunction } from 'openid-client/passport';
import type { StrategyCreated, StrategyCreatedStatic } from 'passport';
import { AppError, appError, type ErrorCode } from '#src/errors.ts';
import type { SignInRequest, VerifiedIdentity } from '#src/ports/identity.ts';
import type { ProviderHttpClient } from '#src/ports/web.ts';
import { createOAuthFetch, toOAuthError } from './oauth-client.ts';

const discoveryMaxAgeMs = 60 * 60_000;
/** Session property in which openid-client's strategy keeps the state of a sign-in between redirect and callback. */
const sessionKey = 'attempt';

export type SignInStrategyDeps = {
  call: ProviderHttpClient;
  issuer: string;
  client: { id: string; secret: string };
};

export function createSignInStrategy({ call, issuer, client }: SignInStrategyDeps): () => Promise<SignInStrategy> {
  const protocols = new URL(issuer).protocol === 'http:' ? ['https:', 'http:'] : ['https:'];
  let cached: { strategy: Promise<SignInStrategy>; expiresAtMs: number } | null = null;

  const isUsable = (address: unknown) =>
    typeof address === 'string' && protocols.includes(URL.parse(address)?.protocol ?? '');

  async function discover(): Promise<SignInStrategy> {
    // By default, openid-client does not check the signature of an ID token that it received over TLS.
    const execute = [openid.enableNonRepudiationChecks];
    if (protocols.includes('http:')) execute.push(openid.allowInsecureRequests);
    try {
      const options = { execute, [openid.customFetch]: createOAuthFetch(call) };
      const authenticate = authenticateBy(client.secret);
      const provider = await openid.discovery(new URL(issuer), client.id, undefined, authenticate, options);
      const metadata = provider.serverMetadata();
      const missing = requiredAddresses.find((name) => !isUsable(metadata[name]));
      if (missing === undefined) return new SignInStrategy(provider);
      throw appError('provider_response_invalid', { detail: `The discovery document has no usable ${missing}.` });
    } catch (error) {
      throw failureOfAnswer(error, 'provider_response_invalid');
    }
  }

  return () => {
    if (cached !== null && cached.expiresAtMs > Date.now()) return cached.strategy;
    const asked = { strategy: discover(), expiresAtMs: Date.now() + discoveryMaxAgeMs };
    cached = asked;
    asked.strategy.catch(() => {
      if (cached === asked) cached = null;
    });
    return asked.strategy;
  };
}

type Authenticating = StrategyCreated<Strategy, Strategy & StrategyCreatedStatic>;
type Tokens = Parameters<VerifyFunction>[0];
type Session = { [sessionKey]?: { code_verifier: string; nonce: string } };

/**
 * Runs openid-client's Passport strategy without a session. The result is the provider's authorization URL or the
 * {@link VerifiedIdentity}.
 */
class SignInStrategy extends Strategy {
  constructor(config: openid.Configuration) {
    const name = config.serverMetadata().issuer;
    super({ config, name, sessionKey, scope: 'openid email profile' }, async (tokens, verified) => {
      verified(null, await identityOf(config, tokens));
    });
  }

  /**
   * Replaces methods of `this`, which is safe because Passport creates a new object for each call of `authenticate`.
   */
  override authenticate(this: Authenticating, _: unknown, options: AuthenticateOptions): void {
    const { request }: { request: SignInRequest } = Object(options);
    const { error, success } = this;
    const { redirectUri } = request;
    const url = new URL(redirectUri);
    const session: Session = {};
    if ('answer' in request) {
      session[sessionKey] = { code_verifier: request.codeVerifier, nonce: request.nonce };
      url.searchParams.set('code', request.answer.code);
      // `iss` (RFC 9207) protects against mixing up identity providers; optional, because there is only one.
      url.searchParams.set('iss', request.answer.issuer ?? this.name);
    } else {
      const params = { redirect_uri: redirectUri, state: request.state, nonce: openid.randomNonce() };
      this.authorizationRequestParams = () => params;
      this.redirect = (href) => {
        const { code_verifier: codeVerifier } = session[sessionKey] ?? {};
        success({ url: href, nonce: params.nonce, codeVerifier, redirectUri });
      };
    }
    this.currentUrl = () => url;
    this.error = (thrown) => error(failureOfAnswer(thrown, 'identity_not_verified'));
    super.authenticate(Object({ method: 'GET', session }), {});
  }
}

async function identityOf(config: openid.Configuration, tokens: Tokens): Promise<VerifiedIdentity> {
  const claims = tokens.claims();
  if (claims === undefined || !subjectPattern.test(claims.sub)) {
    throw appError('identity_not_verified', { detail: 'The ID token has no valid `sub`.' });
  }
  const { iss, sub, azp } = claims;
  // openid-client checks `azp` only if there are several audiences (OpenID Connect Core §3.1.3.7).
  if (azp !== undefined && azp !== config.clientMetadata().client_id) {
    throw appError('identity_not_verified', { detail: detailOfOther });
  }
  if (config.serverMetadata().userinfo_endpoint === undefined) return { issuer: iss, subject: sub, claims };
  const userInfo = await fetchUserInfo(config, tokens.access_token, sub);
  const email = emailOf(userInfo.email === undefined ? claims : userInfo);
  return { issuer: iss, subject: sub, claims: { ...claims, ...userInfo, ...email } };
}

async function fetchUserInfo(config: openid.Configuration, accessToken: string, subject: string) {
  try {
    return await openid.fetchUserInfo(config, accessToken, subject);
  } catch (error) {
    const failure = failureOfAnswer(error, 'identity_not_verified');
    const isRefused = failure instanceof AppError && failure.code === 'provider_not_configured';
    // The userinfo request does not send the client secret, so a 401 means a rejected access token.
    throw isRefused
      ? appError('provider_rejected', { detail: 'The userinfo endpoint rejects the access token.' })
      : failure;
  }
}

const requiredAddresses = ['authorization_endpoint', 'token_endpoint', 'jwks_uri'] as const;

/** A subject has at most 255 ASCII characters (OpenID Connect Core 1.0, §2). */
const subjectPattern = /^[ -~]{1,255}$/;

/** Takes both claims from the same source, because `email_verified` only refers to the `email` beside it. */
const emailOf = ({ email, email_verified }: VerifiedIdentity['claims']) => ({ email, email_verified });

/** Sends the client secret in the header (RFC 6749 §2.3.1) unless the provider only supports other methods. */
function authenticateBy(secret: string): openid.ClientAuth {
  const [inHeader, inBody] = [openid.ClientSecretBasic(secret), openid.ClientSecretPost(secret)];
  return (provider, ...request) => {
    const taken = provider.token_endpoint_auth_methods_supported ?? ['client_secret_basic'];
    const authenticate = taken.includes('client_secret_basic') ? inHeader : inBody;
    return authenticate(provider, ...request);
  };
}

/**
 * Maps errors of openid-client to error codes. `ofContent` is the code for a well-formed response whose content is
 * wrong.
 */
function failureOfAnswer(error: unknown, ofContent: ErrorCode): unknown {
  if (error instanceof AppError) return error;
  const { code, cause } = Object(error);
  const isRefused = Object(cause).ok === false;
  if (!isRefused && faultsOfForm.includes(code)) {
    return appError('provider_response_invalid', {
      detail: 'An answer of the identity provider violates OpenID Connect.',
    });
  }
  const isOfCall = isRefused || code === undefined || faultsOfTransport.includes(code);
  if (isOfCall || !(error instanceof openid.ClientError)) return toOAuthError(error, 'sign_in_invalid');
  return appError(ofContent, { detail: detailOf(code) });
}

const faultsOfTransport = ['OAUTH_TIMEOUT', 'OAUTH_ABORT'];
const faultsOfForm = [
  'OAUTH_RESPONSE_IS_NOT_CONFORM',
  'OAUTH_RESPONSE_IS_NOT_JSON',
  'OAUTH_PARSE_ERROR',
  'OAUTH_MISSING_SERVER_METADATA',
  'OAUTH_INVALID_SERVER_METADATA',
  'OAUTH_HTTP_REQUEST_FORBIDDEN',
  'OAUTH_REQUEST_PROTOCOL_FORBIDDEN',
  // Error codes of Node: the issuer is not a URL, or a signature is not base64url.
  'ERR_INVALID_URL',
  'ERR_INVALID_ARG_VALUE',
];

function detailOf(code: string): string {
  if (code === 'OAUTH_JWT_TIMESTAMP_CHECK_FAILED') return 'The ID token has expired, or a clock is wrong.';
  if (code === 'OAUTH_JWT_CLAIM_COMPARISON_FAILED') return detailOfOther;
  if (code === 'OAUTH_JSON_ATTRIBUTE_COMPARISON_FAILED')
    return 'The issuer or subject in an answer is not the expected one.';
  return 'The ID token is incomplete, or its signature is invalid.';
}

const detailOfOther = 'The ID token is for another service or another sign-in.';
