import * as openid from 'openid-client';
import { AppError, appError, type ErrorCode } from '#src/errors.ts';
import type { Identity, IdentityProvider } from '#src/ports/identity-provider.ts';
import type { ProviderCaller } from '#src/ports/provider-caller.ts';
import { failureOf, fetchBy } from './provider-answers.ts';

/** For how long a provider is taken to be as it has described itself. */
const descriptionMs = 60 * 60_000;

export type IdentityProviderDeps = {
  call: ProviderCaller;
  issuer: string;
  /** What the deployment is known as there. */
  client: { id: string; secret: string };
};

/** Any provider that keeps to OpenID Connect, known by what it says of itself at its well-known address. */
export function createIdentityProvider({ call, issuer, client }: IdentityProviderDeps): IdentityProvider {
  const protocols = new URL(issuer).protocol === 'http:' ? ['https:', 'http:'] : ['https:'];
  let known: { configuration: Promise<openid.Configuration>; staleAtMs: number } | null = null;

  const isUsable = (address: unknown) =>
    typeof address === 'string' && protocols.includes(URL.parse(address)?.protocol ?? '');

  async function discover(): Promise<openid.Configuration> {
    // Without these checks the library believes an ID token for the line that it has come by.
    const execute = [openid.enableNonRepudiationChecks];
    // Whoever has set an address without TLS knows why.
    if (protocols.includes('http:')) execute.push(openid.allowInsecureRequests);
    try {
      const options = { execute, [openid.customFetch]: fetchBy(call) };
      const authenticate = authenticateBy(client.secret);
      const provider = await openid.discovery(new URL(issuer), client.id, undefined, authenticate, options);
      const metadata = provider.serverMetadata();
      const missing = requiredAddresses.find((name) => !isUsable(metadata[name]));
      if (missing === undefined) return provider;
      throw appError('provider_response_invalid', { detail: `It names no ${missing} that can be used.` });
    } catch (error) {
      throw failureOfAnswer(error, 'provider_response_invalid');
    }
  }

  function configuration(): Promise<openid.Configuration> {
    if (known !== null && known.staleAtMs > Date.now()) return known.configuration;
    const asked = { configuration: discover(), staleAtMs: Date.now() + descriptionMs };
    known = asked;
    asked.configuration.catch(() => {
      if (known === asked) known = null;
    });
    return asked.configuration;
  }

  /** What the provider says of whom it has just given a token for. */
  async function personOf(provider: openid.Configuration, accessToken: string, subject: string) {
    try {
      return await openid.fetchUserInfo(provider, accessToken, subject);
    } catch (error) {
      const failure = failureOfAnswer(error, 'identity_not_verified');
      const isRefused = failure instanceof AppError && failure.code === 'provider_not_configured';
      // Our client is not asked for here.
      throw isRefused ? appError('provider_rejected', { detail: 'It refuses the token that it has given.' }) : failure;
    }
  }

  return {
    newAttempt: (redirectUri) => ({
      nonce: openid.randomNonce(),
      codeVerifier: openid.randomPKCECodeVerifier(),
      redirectUri,
    }),

    async authorizeUrl({ state, nonce, codeVerifier, redirectUri }) {
      const url = openid.buildAuthorizationUrl(await configuration(), {
        redirect_uri: redirectUri,
        scope: 'openid email profile',
        state,
        nonce,
        code_challenge: await openid.calculatePKCECodeChallenge(codeVerifier),
        code_challenge_method: 'S256',
      });
      return url.href;
    },

    async identify({ nonce, codeVerifier, redirectUri }, answer) {
      const provider = await configuration();
      const { issuer: ownName, userinfo_endpoint: userinfoUrl } = provider.serverMetadata();
      const callback = new URL(redirectUri);
      callback.searchParams.set('code', answer.code);
      // Of one provider alone it protects nobody, so it need not be passed on; the ID token names its issuer, too.
      callback.searchParams.set('iss', answer.issuer ?? ownName);
      try {
        const checks = { expectedNonce: nonce, pkceCodeVerifier: codeVerifier, idTokenExpected: true };
        const tokens = await openid.authorizationCodeGrant(provider, callback, checks);
        const claims = tokens.claims();
        if (claims === undefined || !subjectPattern.test(claims.sub)) {
          throw appError('identity_not_verified', { detail: 'It names nobody.' });
        }
        const { iss, sub, azp } = claims;
        // The library looks at it only where there are several audiences (OpenID Connect Core §3.1.3.7).
        if (azp !== undefined && azp !== client.id) throw appError('identity_not_verified', { detail: detailOfOther });
        if (userinfoUrl === undefined) return { issuer: iss, subject: sub, claims };
        const person = await personOf(provider, tokens.access_token, sub);
        const email = emailOf(person.email === undefined ? claims : person);
        return { issuer: iss, subject: sub, claims: { ...claims, ...person, ...email } };
      } catch (error) {
        throw failureOfAnswer(error, 'identity_not_verified');
      }
    },
  };
}

/** Without these nobody can sign in. */
const requiredAddresses = ['authorization_endpoint', 'token_endpoint', 'jwks_uri'] as const;

/** OpenID Connect Core 1.0, §2: at most 255 ASCII characters. */
const subjectPattern = /^[ -~]{1,255}$/;

/** Both of one source: what one says of its address holds of no other. */
const emailOf = ({ email, email_verified }: Identity['claims']) => ({ email, email_verified });

/** In the header, which every provider has to take (RFC 6749 §2.3.1), or as one says that it wants it otherwise. */
function authenticateBy(secret: string): openid.ClientAuth {
  const [inHeader, inBody] = [openid.ClientSecretBasic(secret), openid.ClientSecretPost(secret)];
  return (provider, ...request) => {
    const taken = provider.token_endpoint_auth_methods_supported ?? ['client_secret_basic'];
    const authenticate = taken.includes('client_secret_basic') ? inHeader : inBody;
    return authenticate(provider, ...request);
  };
}

/**
 * What is no doing of the provider comes back as it is.
 * @param ofContent when the answer is one, but what it says is wrong
 */
function failureOfAnswer(error: unknown, ofContent: ErrorCode): unknown {
  if (error instanceof AppError) return error;
  const { code, cause } = Object(error);
  // Whatever a refusal looks like.
  const isRefused = Object(cause).ok === false;
  if (!isRefused && faultsOfForm.includes(code)) {
    return appError('provider_response_invalid', { detail: 'It does not answer as an identity provider does.' });
  }
  const isOfCall = isRefused || code === undefined || faultsOfTransport.includes(code);
  if (isOfCall || !(error instanceof openid.ClientError)) return failureOf(error, 'sign_in_invalid');
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
  // Of an issuer that is no address, and of a signature that is no base64url.
  'ERR_INVALID_URL',
  'ERR_INVALID_ARG_VALUE',
];

/** For whoever has set the provider up; who signs in can do nothing about it. */
function detailOf(code: string): string {
  if (code === 'OAUTH_JWT_TIMESTAMP_CHECK_FAILED') return 'The ID token is too old, or one of the clocks is wrong.';
  if (code === 'OAUTH_JWT_CLAIM_COMPARISON_FAILED') return detailOfOther;
  if (code === 'OAUTH_JSON_ATTRIBUTE_COMPARISON_FAILED') return 'It speaks for, or about, somebody else.';
  return 'It is not signed by the provider, or not complete.';
}

const detailOfOther = 'The ID token is for another service or another sign-in.';
