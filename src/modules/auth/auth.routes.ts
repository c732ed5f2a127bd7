import { created, noContent, ok } from '#src/http/answers.ts';
import { type Route, route } from '#src/http/route.ts';
import {
  keySetResponse,
  loginBody,
  refreshTokenBody,
  registerBody,
  tokenResponse,
  toTokenResponse,
} from './auth.schema.ts';
import type { AuthService } from './auth.service.ts';

/** Resource servers may keep our keys for five minutes. */
const keySetCache = { 'Cache-Control': 'public, max-age=300' };

export function authRoutes(auth: AuthService): Route[] {
  return [
    route({
      method: 'post',
      path: '/auth/register',
      operationId: 'register',
      tag: 'auth',
      summary: 'Create an account and its organization',
      access: 'public',
      limits: [
        { limit: 'register_ip', by: 'ip' },
        { limit: 'register', by: 'ip_and_email' },
      ],
      body: registerBody,
      responses: { 201: { description: 'Registered and signed in', schema: tokenResponse } },
      errors: ['email_taken'],
      handle: async ({ body, requestId }) => created(toTokenResponse(await auth.register(body, requestId))),
    }),
    route({
      method: 'post',
      path: '/auth/login',
      operationId: 'login',
      tag: 'auth',
      summary: 'Sign in with email and password',
      access: 'public',
      limits: [
        { limit: 'login_ip', by: 'ip' },
        { limit: 'login', by: 'ip_and_email' },
      ],
      body: loginBody,
      responses: { 200: { description: 'Signed in', schema: tokenResponse } },
      errors: ['invalid_credentials', 'account_disabled'],
      handle: async ({ body, requestId }) => ok(toTokenResponse(await auth.login(body, requestId))),
    }),
    route({
      method: 'post',
      path: '/auth/refresh_tokens',
      operationId: 'refreshTokens',
      tag: 'auth',
      summary: 'Exchange a refresh token for a new pair',
      access: 'public',
      limits: [{ limit: 'refresh', by: 'ip' }],
      body: refreshTokenBody,
      responses: { 200: { description: 'The new pair; the token sent is used up', schema: tokenResponse } },
      errors: ['refresh_invalid', 'refresh_reused', 'account_disabled'],
      handle: async ({ body, requestId }) => ok(toTokenResponse(await auth.refresh(body.refreshToken, requestId))),
    }),
    route({
      method: 'post',
      path: '/auth/logout',
      operationId: 'logout',
      tag: 'auth',
      summary: 'Revoke a refresh token and its session',
      access: 'public',
      body: refreshTokenBody,
      responses: { 204: { description: 'The token does not work (any more)' } },
      handle: async ({ body, requestId }) => {
        await auth.logout(body.refreshToken, requestId);
        return noContent();
      },
    }),
    route({
      method: 'get',
      path: '/.well-known/jwks.json',
      operationId: 'getKeySet',
      tag: 'auth',
      summary: 'The public keys of access tokens (JWKS)',
      access: 'public',
      responses: { 200: { description: 'The key set', schema: keySetResponse } },
      handle: () => ok(auth.keySet(), keySetCache),
    }),
  ];
}
