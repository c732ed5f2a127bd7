import { z } from 'zod';
import { consentCodeSchema, finishConsentBody, oauthCallbackQuery } from '#src/http/request/fields.ts';
import type { CursorCodec } from '#src/http/request/pagination.ts';
import { uuidPathParam } from '#src/http/request/validation.ts';
import {
  createdAnswer,
  noContentAnswer,
  okAnswer,
  okAnswerWithVersion,
  seeOtherRedirectAnswer,
} from '#src/http/response/answers.ts';
import { defineRoute, type HttpRoute } from '#src/http/routing/route.ts';
import {
  authorizeConnectionQuery,
  authorizeConnectionSchema,
  browseConnectionBody,
  changeConnectionBody,
  connectionListSchema,
  connectionSchema,
  connectorProviderListSchema,
  connectorProviders,
  createS3ConnectionBody,
  finishedConsentSchema,
  remoteFileListSchema,
  toConnectionDto,
  toConnectorProviderDto,
  toRemoteFileDto,
} from './connections.schema.ts';
import type { ConnectionsService } from './connections.service.ts';

const tag = 'connectors';
const params = z.strictObject({ connection_id: uuidPathParam('connection_not_found') });
const providerParams = z.strictObject({
  provider: z.enum(connectorProviders, { error: 'provider_not_found' }).meta({ id: 'ConnectorProvider' }),
});
const one = '/connectors/connections/:connection_id';
const outages = ['provider_unavailable', 'provider_throttled'] as const;

export function connectorsRoutes(connections: ConnectionsService, cursors: CursorCodec): HttpRoute[] {
  return [
    defineRoute({
      method: 'get',
      path: '/connectors/oauth/providers',
      operationId: 'listConnectorProviders',
      tag,
      summary: 'List the file providers that support OAuth consent',
      access: 'user',
      responses: {
        200: {
          description: 'The providers that this deployment has an OAuth client at',
          schema: connectorProviderListSchema,
        },
      },
      handle: () => okAnswer({ providers: connections.providers().map(toConnectorProviderDto) }),
    }),
    defineRoute({
      method: 'get',
      path: '/connectors/oauth/:provider/authorize',
      operationId: 'authorizeConnector',
      tag,
      summary: 'Begin an OAuth consent at a file provider',
      access: 'user',
      limits: [{ limit: 'connect', by: 'user' }],
      params: providerParams,
      query: authorizeConnectionQuery,
      responses: { 200: { description: 'The consent page of the provider', schema: authorizeConnectionSchema } },
      errors: ['provider_not_found', 'wrong_auth_kind', 'provider_not_configured'],
      handle: async ({ actor, params: { provider }, query: { login_hint, site_id, return_to }, publicUrl }) => {
        const request = { provider, loginHint: login_hint, siteId: site_id, returnTo: return_to, publicUrl };
        return okAnswer(
          { authorize_url: await connections.beginConsent(actor, request) },
          { 'Cache-Control': 'no-store' },
        );
      },
    }),
    defineRoute({
      method: 'get',
      path: '/connectors/oauth/:provider/callback',
      operationId: 'returnFromConnectorConsent',
      tag,
      summary: 'Callback of the file provider after a consent; does not create the connection yet',
      access: 'public',
      limits: [{ limit: 'connect', by: 'ip' }],
      params: providerParams,
      query: oauthCallbackQuery,
      responses: {
        200: {
          description: 'The consent code to finish with, if the consent was begun without `return_to`',
          schema: consentCodeSchema,
        },
        303: { description: 'Redirects to `return_to` with `consent_code` or `error`' },
      },
      errors: ['provider_not_found', 'consent_invalid', 'consent_denied'],
      handle: async ({ params: { provider }, query: { state, code, error, iss } }) => {
        const back = await connections.returnFromConsent({ provider, state, code, error, issuer: iss });
        if (back.location !== null) return seeOtherRedirectAnswer(back.location);
        return okAnswer({ consent_code: back.consentCode }, { 'Cache-Control': 'no-store' });
      },
    }),
    defineRoute({
      method: 'post',
      path: '/connectors/oauth/:provider/finish',
      operationId: 'finishConnectorConsent',
      tag,
      summary: 'Finish a consent that you began, and create or renew its connection',
      access: 'user',
      limits: [{ limit: 'connect', by: 'user' }],
      params: providerParams,
      body: finishConsentBody,
      responses: { 200: { description: 'The connection', schema: finishedConsentSchema } },
      errors: [
        'provider_not_found',
        'wrong_auth_kind',
        'consent_invalid',
        'connection_check_failed',
        'connection_limit_reached',
        'provider_not_configured',
        'provider_rejected',
        ...outages,
      ],
      handle: async ({ actor, params: { provider }, body: { consentCode } }) => {
        const connection = await connections.finishConsent(actor, { provider, consentCode });
        return okAnswer({ connection: toConnectionDto(connection) });
      },
    }),
    defineRoute({
      method: 'post',
      path: '/connectors/acme_s3/connections',
      operationId: 'createS3Connection',
      tag,
      summary: 'Connect a bucket with access keys',
      access: 'user',
      idempotent: true,
      limits: [{ limit: 'connect', by: 'user' }],
      body: createS3ConnectionBody,
      responses: { 201: { description: 'The connection', schema: connectionSchema } },
      errors: ['connection_check_failed', 'connection_limit_reached', ...outages],
      handle: async ({ actor, body: { display_name, credentials, config }, newId }) => {
        const input = { displayName: display_name, keys: credentials, config };
        return createdAnswer(toConnectionDto(await connections.createByKeys(actor, newId, input)));
      },
    }),
    defineRoute({
      method: 'get',
      path: '/connectors/connections',
      operationId: 'listConnections',
      tag,
      summary: 'List your connections to file providers, oldest first',
      access: 'user',
      responses: { 200: { description: 'Your connections', schema: connectionListSchema } },
      handle: async ({ actor }) => okAnswer({ items: (await connections.list(actor)).map(toConnectionDto) }),
    }),
    defineRoute({
      method: 'get',
      path: one,
      operationId: 'getConnection',
      tag,
      summary: 'Read one of your connections',
      access: 'connection:read',
      params,
      responses: { 200: { description: 'The connection', schema: connectionSchema } },
      errors: ['connection_not_found'],
      handle: async ({ actor, params: { connection_id } }) => {
        const connection = await connections.get(actor, connection_id);
        return okAnswerWithVersion(toConnectionDto(connection), connection);
      },
    }),
    defineRoute({
      method: 'patch',
      path: `${one}/refresh`,
      operationId: 'refreshConnection',
      tag,
      summary: 'Check the credentials of a connection at the provider',
      access: 'connection:write',
      takesIfMatch: true,
      limits: [{ limit: 'connect', by: 'user' }],
      params,
      responses: { 200: { description: 'The connection, `active` or `needs_reauth`', schema: connectionSchema } },
      errors: [
        'connection_not_found',
        'connection_check_failed',
        'provider_not_configured',
        'credentials_unreadable',
        ...outages,
      ],
      handle: async ({ actor, params: { connection_id }, expectedVersions }) =>
        okAnswer(toConnectionDto(await connections.refresh(actor, connection_id, expectedVersions))),
    }),
    defineRoute({
      method: 'patch',
      path: one,
      operationId: 'changeConnection',
      tag,
      summary: 'Change the name, the keys or the settings of a connection',
      access: 'connection:write',
      takesIfMatch: true,
      limits: [{ limit: 'connect', by: 'user' }],
      params,
      body: changeConnectionBody,
      responses: { 200: { description: 'The connection', schema: connectionSchema } },
      errors: ['connection_not_found', 'connection_check_failed', 'credentials_unreadable', ...outages],
      handle: async ({ actor, params: { connection_id }, body, expectedVersions }) => {
        const change = { displayName: body.display_name, keys: body.credentials, config: body.config };
        return okAnswer(toConnectionDto(await connections.change(actor, connection_id, change, expectedVersions)));
      },
    }),
    defineRoute({
      method: 'delete',
      path: one,
      operationId: 'deleteConnection',
      tag,
      summary: 'Delete a connection, and revoke its grant where the provider allows it',
      access: 'connection:write',
      params,
      responses: { 204: { description: 'The connection is deleted; imported documents stay' } },
      errors: ['connection_not_found'],
      handle: async ({ actor, params: { connection_id } }) => {
        await connections.remove(actor, connection_id);
        return noContentAnswer();
      },
    }),
    defineRoute({
      method: 'post',
      path: `${one}/browse`,
      operationId: 'browseConnection',
      tag,
      summary: 'List a folder at the provider',
      access: 'connection:read',
      limits: [{ limit: 'search', by: 'user' }],
      params,
      body: browseConnectionBody,
      responses: {
        200: { description: 'Files and folders in it, about a thousand per page', schema: remoteFileListSchema },
      },
      errors: [
        'connection_not_found',
        'remote_file_not_found',
        'url_not_allowed',
        'invalid_cursor',
        'needs_reauth',
        'not_granted',
        'provider_not_configured',
        'provider_rejected',
        'credentials_unreadable',
        ...outages,
      ],
      handle: async ({ actor, params: { connection_id }, body: { path, page } }) => {
        const list = { connection_id, path };
        const position = cursors.decode(page, list);
        const found = await connections.browse(actor, connection_id, path, position?.sortKey ?? null);
        const next = found.nextPage === null ? null : { sortKey: found.nextPage, id: connection_id };
        return okAnswer({ path, files: found.files.map(toRemoteFileDto), next_page: cursors.encode(next, list) });
      },
    }),
  ];
}
