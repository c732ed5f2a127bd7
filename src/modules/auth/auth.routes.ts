import { z } from 'zod';
import { type CursorCodec, cursorPaginationQuery } from '#src/http/request/pagination.ts';
import { uuidPathParam } from '#src/http/request/validation.ts';
import { createdAnswer, noContentAnswer, okAnswer } from '#src/http/response/answers.ts';
import { defineRoute, type HttpRoute } from '#src/http/routing/route.ts';
import {
  changePasswordBody,
  keySetResponse,
  loginBody,
  refreshTokenBody,
  registerBody,
  sessionListSchema,
  setPasswordBody,
  ssoAuthorizeBody,
  ssoAuthorizeSchema,
  ssoCallbackQuery,
  tokenResponse,
  toSessionDto,
  toTokenResponse,
} from './auth.schema.ts';
import type { AuthService } from './auth.service.ts';
import type { PasswordsService } from './passwords.service.ts';
import type { SessionsService } from './sessions.service.ts';
import type { SsoService } from './sso.service.ts';

const keySetCache = { 'Cache-Control': 'public, max-age=300' };
const noStore = { 'Cache-Control': 'no-store' };
const providerErrors = [
  'provider_not_configured',
  'provider_rejected',
  'provider_response_invalid',
  'provider_unavailable',
] as const;

export function authRoutes(
  auth: AuthService,
  passwords: PasswordsService,
  sessions: Pick<SessionsService, 'listOwn' | 'endOwn' | 'endOthers'>,
  sso: SsoService,
  cursors: CursorCodec,
): HttpRoute[] {
  return [
    defineRoute({
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
      handle: async ({ body, requestId, client }) =>
        createdAnswer(toTokenResponse(await auth.register(body, { requestId, client }))),
    }),
    defineRoute({
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
      handle: async ({ body, requestId, client }) =>
        okAnswer(toTokenResponse(await auth.login(body, { requestId, client }))),
    }),
    defineRoute({
      method: 'post',
      path: '/auth/refresh_tokens',
      operationId: 'refreshTokens',
      tag: 'auth',
      summary: 'Exchange a refresh token for a new pair',
      access: 'public',
      limits: [{ limit: 'refresh', by: 'ip' }],
      body: refreshTokenBody,
      responses: {
        200: { description: 'The new pair; the token that was sent no longer works', schema: tokenResponse },
      },
      errors: ['refresh_invalid', 'refresh_reused', 'account_disabled'],
      handle: async ({ body, requestId }) =>
        okAnswer(toTokenResponse(await auth.refresh(body.refreshToken, requestId))),
    }),
    defineRoute({
      method: 'post',
      path: '/auth/logout',
      operationId: 'logout',
      tag: 'auth',
      summary: 'End the session of a refresh token',
      access: 'public',
      body: refreshTokenBody,
      responses: { 204: { description: 'No token of the session works any more' } },
      handle: async ({ body, requestId }) => {
        await auth.logout(body.refreshToken, requestId);
        return noContentAnswer();
      },
    }),
    defineRoute({
      method: 'get',
      path: '/auth/sessions',
      operationId: 'listSessions',
      tag: 'auth',
      summary: 'Your open sessions, newest first',
      access: 'user',
      query: z.strictObject(cursorPaginationQuery),
      responses: { 200: { description: 'A page of sessions', schema: sessionListSchema } },
      handle: async ({ actor, sessionId, query: { limit, cursor } }) => {
        const list = { list: 'sessions' };
        const page = { limit, after: cursors.decode(cursor, list) };
        const { items, last } = await sessions.listOwn(actor, sessionId, page);
        return okAnswer({
          items: items.map((session) => toSessionDto(session, sessionId)),
          next_cursor: cursors.encode(last, list),
        });
      },
    }),
    defineRoute({
      method: 'delete',
      path: '/auth/sessions',
      operationId: 'endOtherSessions',
      tag: 'auth',
      summary: 'End all your sessions except the one of the request',
      access: 'user',
      responses: { 204: { description: 'No token of the other sessions works any more' } },
      handle: async ({ actor, sessionId }) => {
        await sessions.endOthers(actor, sessionId);
        return noContentAnswer();
      },
    }),
    defineRoute({
      method: 'delete',
      path: '/auth/sessions/:session_id',
      operationId: 'endSession',
      tag: 'auth',
      summary: 'End one of your sessions',
      access: 'session:end',
      params: z.strictObject({ session_id: uuidPathParam('session_not_found') }),
      responses: { 204: { description: 'No token of the session works any more' } },
      errors: ['session_not_found'],
      handle: async ({ actor, params: { session_id } }) => {
        await sessions.endOwn(actor, session_id);
        return noContentAnswer();
      },
    }),
    defineRoute({
      method: 'post',
      path: '/auth/change-password',
      operationId: 'changePassword',
      tag: 'auth',
      summary: 'Change your password and end your other sessions',
      access: 'user',
      limits: [{ limit: 'login', by: 'user' }],
      body: changePasswordBody,
      responses: { 204: { description: 'Changed; no refresh token works any more, sign in again to get one' } },
      errors: ['wrong_password'],
      handle: async ({ actor, sessionId, body }) => {
        await passwords.change(actor, sessionId, body);
        return noContentAnswer();
      },
    }),
    defineRoute({
      method: 'post',
      path: '/auth/set-password',
      operationId: 'setPassword',
      tag: 'auth',
      summary: 'Set the first password of an account that signs in by the identity provider only',
      access: 'user',
      body: setPasswordBody,
      responses: { 204: { description: 'Set; sessions stay open' } },
      errors: ['password_already_set'],
      handle: async ({ actor, body }) => {
        await passwords.set(actor, body.password);
        return noContentAnswer();
      },
    }),
    defineRoute({
      method: 'get',
      path: '/.well-known/jwks.json',
      operationId: 'getKeySet',
      tag: 'auth',
      summary: 'The public keys of access tokens (JWKS)',
      access: 'public',
      responses: { 200: { description: 'The key set', schema: keySetResponse } },
      handle: () => okAnswer(auth.keySet(), keySetCache),
    }),
    defineRoute({
      method: 'post',
      path: '/auth/sso/authorize',
      operationId: 'authorizeSso',
      tag: 'auth',
      summary: 'Begin a sign-in with the identity provider',
      access: 'public',
      limits: [{ limit: 'sso_authorize', by: 'ip' }],
      body: ssoAuthorizeBody,
      responses: { 200: { description: 'The address to send the browser to', schema: ssoAuthorizeSchema } },
      errors: ['unsupported_provider', 'redirect_not_allowed', ...providerErrors],
      handle: async ({ body }) => okAnswer({ authorization_url: await sso.begin(body) }),
    }),
    defineRoute({
      method: 'get',
      path: '/auth/sso/callback',
      operationId: 'finishSso',
      tag: 'auth',
      summary: "Finish a sign-in with the parameters of the identity provider's redirect",
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
        ...providerErrors,
      ],
      handle: async ({ query, requestId, client }) =>
        okAnswer(toTokenResponse(await sso.finish(query, { requestId, client })), noStore),
    }),
  ];
}
