import { z } from 'zod';
import { type PasswordFault, passwordFaults } from '#src/domain/password-rule.ts';
import { isOneLine } from '#src/domain/plain-text.ts';
import { idField } from '#src/http/fields.ts';
import type { SignIn } from './auth.model.ts';

const faultMessages: Record<PasswordFault, string> = {
  length: 'A password has 10 to 128 characters',
  uppercase: 'A password needs an uppercase letter',
  lowercase: 'A password needs a lowercase letter',
  digit: 'A password needs a digit',
  special: 'A password needs a special character',
};

/** Trimmed and lower-cased, as it is stored and compared. */
export const emailField = z
  .string()
  .max(320)
  .trim()
  .toLowerCase()
  .pipe(z.email({ error: 'Not a valid email address' }).max(254))
  .meta({ description: 'An email address; surrounding spaces and case do not matter' });

/** A password to be set. One to be checked takes any text. */
export const newPasswordField = z
  .string()
  .check((context) => {
    for (const fault of passwordFaults(context.value)) {
      const params = { code: `password_${fault}` };
      context.issues.push({ code: 'custom', input: context.value, message: faultMessages[fault], params });
    }
  })
  .meta({
    description: '10 to 128 characters with an uppercase and a lowercase letter, a digit and a special character',
    minLength: 10,
    maxLength: 128,
  });

const givenPassword = z.string().min(1).max(1_024);

/** A name of a person or an organization; a blank one counts as not given. */
const nameField = z
  .string()
  .max(200)
  .refine(isOneLine, 'must be one line without control characters')
  .transform((text) => text.trim() || undefined)
  .optional();

export const registerBody = z
  .strictObject({
    email: emailField,
    password: newPasswordField,
    first_name: nameField,
    last_name: nameField,
    display_name: nameField,
    org_name: nameField,
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

export const refreshTokenBody = z
  .strictObject({ refresh_token: z.string().min(1).max(1_024) })
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
      tier: z.enum(['free', 'pro', 'max']),
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
