import { z } from 'zod';
import { emailField, newPasswordField, optionalNameField, tierField, uuidField } from '#src/http/request/fields.ts';
import type { SignInResult } from './auth.model.ts';
import type { OpenSession } from './sessions.repository.ts';

const givenPassword = z.string().min(1).max(1_024).meta({ writeOnly: true });

export const registerBody = z
  .strictObject({
    email: emailField,
    password: newPasswordField,
    first_name: optionalNameField,
    last_name: optionalNameField,
    display_name: optionalNameField,
    org_name: optionalNameField,
  })
  .transform(({ email, password, ...names }) => ({
    email,
    password,
    firstName: names.first_name,
    lastName: names.last_name,
    displayName: names.display_name,
    orgName: names.org_name,
  }));

export type RegisterBody = z.output<typeof registerBody>;

export const loginBody = z
  .strictObject({
    username: emailField.optional().describe('The email address of the account. Send `username` or `email`, not both.'),
    email: emailField.optional().describe('The same as `username`.'),
    password: givenPassword,
  })
  .meta({ oneOf: [{ required: ['username'] }, { required: ['email'] }] })
  .transform(({ username, email, password }, context) => {
    const [name, another] = [username, email].filter((sent) => sent !== undefined);
    if (name !== undefined && another === undefined) return { email: name, password };
    const refuse = (path: string, message: string, code: string) =>
      context.addIssue({ code: 'custom', path: [path], message, params: { code } });
    if (name === undefined) refuse('username', 'Send username or email', 'required');
    else refuse('email', 'Send username or email, not both', 'exclusive');
    return z.NEVER;
  });

export type LoginBody = z.output<typeof loginBody>;

export const changePasswordBody = z
  .strictObject({ current_password: givenPassword, new_password: newPasswordField })
  .transform((body) => ({ current: body.current_password, next: body.new_password }));

export const setPasswordBody = z.strictObject({ password: newPasswordField });

export const refreshTokenBody = z
  .strictObject({ refresh_token: z.string().min(1).max(1_024).meta({ writeOnly: true }) })
  .transform((body) => ({ refreshToken: body.refresh_token }));

export const tokenResponse = z
  .strictObject({
    access_token: z.string().describe('A signed JWT'),
    token_type: z.literal('bearer'),
    expires_in: z.int().describe('Seconds'),
    refresh_token: z.string(),
    organization: z.strictObject({
      org_id: uuidField,
      name: z.string(),
      tier: tierField,
      is_org_admin: z.boolean(),
    }),
    is_new_user: z.boolean(),
    needs_profile_completion: z.boolean(),
  })
  .meta({ id: 'TokenResponse' });

export type TokenResponse = z.output<typeof tokenResponse>;

export const keySetResponse = z
  .strictObject({
    keys: z.array(
      z.strictObject({
        kty: z.literal('RSA'),
        use: z.literal('sig'),
        alg: z.literal('RS256'),
        kid: z.string(),
        n: z.string(),
        e: z.string(),
      }),
    ),
  })
  .meta({ id: 'JsonWebKeySet' });

const sessionSchema = z
  .strictObject({
    id: uuidField,
    user_agent: z.string().nullable().describe('The `User-Agent` of the client that signed in'),
    created_at: z.iso.datetime(),
    last_used_at: z.iso.datetime().describe('The last refresh, or the sign-in'),
    expires_at: z.iso.datetime().describe('Unless it is refreshed before'),
    current: z.boolean().describe('Whether it is the session of this request'),
  })
  .meta({ id: 'Session' });

export const sessionListSchema = z.strictObject({ items: z.array(sessionSchema), next_cursor: z.string().nullable() });

export function toSessionDto(session: OpenSession, current: string): z.input<typeof sessionSchema> {
  const { id, userAgent, createdAt, usedAt, expiresAt } = session;
  return {
    id,
    user_agent: userAgent,
    created_at: createdAt.toISOString(),
    last_used_at: usedAt.toISOString(),
    expires_at: expiresAt.toISOString(),
    current: id === current,
  };
}

export function toTokenResponse({ account, ...signIn }: SignInResult): TokenResponse {
  return {
    access_token: signIn.accessToken,
    token_type: 'bearer',
    expires_in: signIn.expiresInSeconds,
    refresh_token: signIn.refreshToken,
    organization: {
      org_id: account.orgId,
      name: account.orgName,
      tier: account.tier,
      is_org_admin: account.isOrgAdmin,
    },
    is_new_user: signIn.isNewUser,
    needs_profile_completion: account.firstName === null || account.lastName === null,
  };
}

export const ssoAuthorizeBody = z
  .strictObject({
    provider: z.string().min(1).max(100).describe('`acme` or `acmeoauth`, in upper or lower case'),
    redirect_uri: z
      .url()
      .max(2_000)
      .optional()
      .describe(
        'Where the provider redirects the browser, without a query; by default as the deployment configures it',
      ),
  })
  .transform(({ provider, redirect_uri }) => ({ provider, redirectUri: redirect_uri }));

export type SsoAuthorizeBody = z.output<typeof ssoAuthorizeBody>;

export const ssoCallbackQuery = z
  .looseObject({
    code: z.string().min(1).max(4_096).optional(),
    state: z.string().min(1).max(200),
    error: z.string().min(1).max(200).optional().describe('Error code of the provider; a `code` beside it is ignored'),
    iss: z.string().min(1).max(2_000).optional(),
  })
  .refine(({ code, error }) => code !== undefined || error !== undefined, {
    path: ['code'],
    error: 'is required',
    params: { code: 'required' },
  })
  .transform(({ code, state, error, iss }) => ({ code, state, error, issuer: iss }));

export type SsoCallbackQuery = z.output<typeof ssoCallbackQuery>;

export const ssoAuthorizeSchema = z.strictObject({
  authorization_url: z.url().describe('Keep its `state` in this browser, and finish no sign-in with another one'),
});

const nameClaim = optionalNameField.catch(undefined);

/**
 * Claims of an identity provider about a user. An invalid claim counts as missing; the sign-in fails if `email` is
 * missing.
 */
export const identityClaims = z
  .object({
    email: emailField.optional().catch(undefined),
    // Accepts `email_verified` as a string too, because some identity providers send it so.
    email_verified: z
      .literal([true, 'true'])
      .transform(() => true)
      .catch(false),
    given_name: nameClaim,
    family_name: nameClaim,
    name: nameClaim,
    picture: z.string().transform(toPictureUrl).catch(null),
  })
  .transform((claims) => ({
    email: claims.email,
    isEmailVerified: claims.email_verified,
    firstName: claims.given_name,
    lastName: claims.family_name,
    displayName: claims.name,
    pictureUrl: claims.picture,
  }));

export type IdentityClaims = z.output<typeof identityClaims>;

/** Returns the normalized URL of a picture; null for a URL that browsers should not load. */
function toPictureUrl(text: string): string | null {
  const url = URL.parse(text);
  if (url === null || url.protocol !== 'https:' || url.username !== '' || url.password !== '') return null;
  return url.href.length <= 2_000 ? url.href : null;
}
