import { z } from 'zod';
import { emailField, optionalNameField } from '#src/http/request/fields.ts';

export const ssoAuthorizeBody = z
  .strictObject({
    provider: z.string().min(1).max(100).describe('`acme` or `acmeoauth`, in whatever case'),
    redirect_uri: z
      .url()
      .max(2_000)
      .optional()
      .describe('Where the browser comes back to; without a query. Without one it is where the deployment says'),
  })
  .transform(({ provider, redirect_uri }) => ({ provider, redirectUri: redirect_uri }));

export type SsoWish = z.output<typeof ssoAuthorizeBody>;

/** Providers add parameters of their own. */
export const ssoCallbackQuery = z
  .looseObject({
    code: z.string().min(1).max(4_096).optional(),
    state: z.string().min(1).max(200),
    error: z.string().min(1).max(200).optional().describe('The provider refuses; a code beside it is ignored'),
    iss: z.string().min(1).max(2_000).optional(),
  })
  .refine(({ code, error }) => code !== undefined || error !== undefined, {
    path: ['code'],
    error: 'is required',
    params: { code: 'required' },
  })
  .transform(({ code, state, error, iss }) => ({ code, state, error, issuer: iss }));

export type SsoCallback = z.output<typeof ssoCallbackQuery>;

export const ssoAuthorizeSchema = z.strictObject({
  authorization_url: z.url().describe('Keep its `state` in this browser, and finish no sign-in with another one'),
});

/** What cannot be used counts as not said. */
const nameClaim = optionalNameField.catch(undefined);

/** What an identity provider says of somebody. Nothing of it is an error: without a usable email he is refused later. */
export const personClaims = z
  .object({
    email: emailField.optional().catch(undefined),
    // Some say it as text.
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

export type Person = z.output<typeof personClaims>;

/** In one spelling; null for what a browser should not be sent to. */
function toPictureUrl(text: string): string | null {
  const url = URL.parse(text);
  if (url === null || url.protocol !== 'https:' || url.username !== '' || url.password !== '') return null;
  return url.href.length <= 2_000 ? url.href : null;
}
