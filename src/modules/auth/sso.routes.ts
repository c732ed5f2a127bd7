import { ok } from '#src/http/response/answers.ts';
import { type Route, route } from '#src/http/routing/route.ts';
import { tokenResponse, toTokenResponse } from './auth.schema.ts';
import { ssoAuthorizeBody, ssoAuthorizeSchema, ssoCallbackQuery } from './sso.schema.ts';
import type { SsoService } from './sso.service.ts';

const noStore = { 'Cache-Control': 'no-store' };
const ofProvider = [
  'provider_not_configured',
  'provider_rejected',
  'provider_response_invalid',
  'provider_unavailable',
] as const;

export function ssoRoutes(sso: SsoService): Route[] {
  return [
    route({
      method: 'post',
      path: '/auth/sso/authorize',
      operationId: 'authorizeSso',
      tag: 'auth',
      summary: 'Begin a sign-in with the identity provider',
      access: 'public',
      limits: [{ limit: 'sso_authorize', by: 'ip' }],
      body: ssoAuthorizeBody,
      responses: { 200: { description: 'Where to send the browser', schema: ssoAuthorizeSchema } },
      errors: ['unsupported_provider', 'redirect_not_allowed', ...ofProvider],
      handle: async ({ body }) => ok({ authorization_url: await sso.begin(body) }),
    }),
    route({
      method: 'get',
      path: '/auth/sso/callback',
      operationId: 'finishSso',
      tag: 'auth',
      summary: 'Sign in with what the identity provider has sent the browser back with',
      access: 'public',
      isSafe: false,
      limits: [{ limit: 'sso_callback', by: 'ip' }],
      query: ssoCallbackQuery,
      responses: { 200: { description: 'Signed in; the first time with a new account', schema: tokenResponse } },
      errors: [
        'sign_in_invalid',
        'sign_in_denied',
        'identity_not_verified',
        'email_not_verified',
        'account_disabled',
        'email_taken',
        ...ofProvider,
      ],
      handle: async ({ query, requestId, client }) =>
        ok(toTokenResponse(await sso.finish(query, { requestId, client })), noStore),
    }),
  ];
}
