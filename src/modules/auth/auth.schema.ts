import { z } from 'zod';
import { emailField, idField, newPasswordField, optionalNameField, tierField } from '#src/http/request/fields.ts';
import type { SignIn } from './auth.model.ts';
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
  .strictObject({ username: emailField, password: givenPassword })
  .transform(({ username, password }) => ({ email: username, password }));

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
      org_id: idField,
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
    id: idField,
    user_agent: z.string().nullable().describe('What the client that signed in called itself'),
    created_at: z.iso.datetime(),
    last_used_at: z.iso.datetime().describe('The sign-in, or the last refresh'),
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

export function toTokenResponse({ account, ...signIn }: SignIn): TokenResponse {
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
