import { z } from 'zod';
import { callbackQuery, consentReturnSchema, finishConsentBody } from '#src/http/request/fields.ts';
import type { Cursors } from '#src/http/request/pagination.ts';
import { idParam } from '#src/http/request/validation.ts';
import { created, noContent, ok, seeOther, versioned } from '#src/http/response/answers.ts';
import { type Route, route } from '#src/http/routing/route.ts';
import type { ConnectionConsentsService } from './connection-consents.service.ts';
import {
  authorizeQuery,
  authorizeSchema,
  browseBody,
  browseSchema,
  changeConnectionBody,
  connectedSchema,
  connectionListSchema,
  connectionSchema,
  connectorProviders,
  createS3Body,
  providerListSchema,
  toConnectionDto,
  toProviderDto,
  toRemoteFileDto,
} from './connections.schema.ts';
import type { ConnectionsService } from './connections.service.ts';

const tag = 'connectors';
const params = z.strictObject({ connection_id: idParam('connection_not_found') });
const providerParams = z.strictObject({ provider: z.enum(connectorProviders, { error: 'provider_not_found' }) });
const one = '/connectors/connections/:connection_id';
/** Whoever asks a provider may hear of these. */
const outages = ['provider_unavailable', 'provider_throttled'] as const;

export function connectorsRoutes(
  connections: ConnectionsService,
  consents: ConnectionConsentsService,
  cursors: Cursors,
): Route[] {
  return [
    route({
      method: 'get',
      path: '/connectors/oauth/providers',
      operationId: 'listConnectorProviders',
      tag,
      summary: 'The providers of files that you can give your consent at',
      access: 'user',
      responses: { 200: { description: 'Those that this deployment is known at', schema: providerListSchema } },
      handle: () => ok({ providers: consents.providers().map(toProviderDto) }),
    }),
    route({
      method: 'get',
      path: '/connectors/oauth/:provider/authorize',
      operationId: 'authorizeConnector',
      tag,
      summary: 'Begin a consent at a provider of files',
      access: 'user',
      limits: [{ limit: 'connect', by: 'user' }],
      params: providerParams,
      query: authorizeQuery,
      responses: { 200: { description: 'Where to send the browser', schema: authorizeSchema } },
      errors: ['provider_not_found', 'wrong_auth_kind', 'provider_not_configured'],
      handle: async ({ actor, params: { provider }, query: { login_hint, site_id, return_to }, publicUrl }) => {
        const wish = { provider, loginHint: login_hint, siteId: site_id, returnTo: return_to, publicUrl };
        return ok({ authorize_url: await consents.begin(actor, wish) }, { 'Cache-Control': 'no-store' });
      },
    }),
    route({
      method: 'get',
      path: '/connectors/oauth/:provider/callback',
      operationId: 'returnFromConnectorConsent',
      tag,
      summary: 'Where a provider of files redirects the browser after a consent, which it does not finish yet',
      access: 'public',
      limits: [{ limit: 'connect', by: 'ip' }],
      params: providerParams,
      query: callbackQuery,
      responses: {
        200: { description: 'The code to finish with, if no `return_to` was given', schema: consentReturnSchema },
        303: { description: 'On to `return_to`, with `consent_code` or `error`' },
      },
      errors: ['provider_not_found', 'consent_invalid', 'consent_denied'],
      handle: async ({ params: { provider }, query: { state, code, error, iss } }) => {
        const back = await consents.comeBack({ provider, state, code, error, issuer: iss });
        if (back.location !== null) return seeOther(back.location);
        return ok({ consent_code: back.consentCode }, { 'Cache-Control': 'no-store' });
      },
    }),
    route({
      method: 'post',
      path: '/connectors/oauth/:provider/finish',
      operationId: 'finishConnectorConsent',
      tag,
      summary: 'Finish a consent that you began, with the code from its callback',
      access: 'user',
      limits: [{ limit: 'connect', by: 'user' }],
      params: providerParams,
      body: finishConsentBody,
      responses: { 200: { description: 'The connection', schema: connectedSchema } },
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
        const connectionId = await consents.finish(actor, { provider, consentCode });
        const connection = await connections.get(actor, connectionId);
        return ok({ connection: toConnectionDto(connection) });
      },
    }),
    route({
      method: 'post',
      path: '/connectors/acme_s3/connections',
      operationId: 'createS3Connection',
      tag,
      summary: 'Connect yourself to a bucket by keys',
      access: 'user',
      idempotent: true,
      limits: [{ limit: 'connect', by: 'user' }],
      body: createS3Body,
      responses: { 201: { description: 'The connection', schema: connectionSchema } },
      errors: ['connection_check_failed', 'connection_limit_reached', ...outages],
      handle: async ({ actor, body: { display_name, credentials, config }, newId }) => {
        const input = { displayName: display_name, keys: credentials, config };
        return created(toConnectionDto(await connections.createByKeys(actor, newId, input)));
      },
    }),
    route({
      method: 'get',
      path: '/connectors/connections',
      operationId: 'listConnections',
      tag,
      summary: 'Your connections to providers of files, oldest first',
      access: 'user',
      responses: { 200: { description: 'Your own', schema: connectionListSchema } },
      handle: async ({ actor }) => ok({ items: (await connections.list(actor)).map(toConnectionDto) }),
    }),
    route({
      method: 'get',
      path: one,
      operationId: 'getConnection',
      tag,
      summary: 'A connection of yours',
      access: 'connection:read',
      params,
      responses: { 200: { description: 'The connection', schema: connectionSchema } },
      errors: ['connection_not_found'],
      handle: async ({ actor, params: { connection_id } }) => {
        const connection = await connections.get(actor, connection_id);
        return versioned(toConnectionDto(connection), connection);
      },
    }),
    route({
      method: 'patch',
      path: `${one}/refresh`,
      operationId: 'refreshConnection',
      tag,
      summary: 'Ask the provider whether it accepts a connection',
      access: 'connection:write',
      takesIfMatch: true,
      limits: [{ limit: 'connect', by: 'user' }],
      params,
      responses: { 200: { description: 'It is `active`, or `needs_reauth`', schema: connectionSchema } },
      errors: [
        'connection_not_found',
        'connection_check_failed',
        'provider_not_configured',
        'credentials_unreadable',
        ...outages,
      ],
      handle: async ({ actor, params: { connection_id }, expectedVersions }) =>
        ok(toConnectionDto(await connections.refresh(actor, connection_id, expectedVersions))),
    }),
    route({
      method: 'patch',
      path: one,
      operationId: 'changeConnection',
      tag,
      summary: 'Change the name, the keys or the configuration of a connection',
      access: 'connection:write',
      takesIfMatch: true,
      limits: [{ limit: 'connect', by: 'user' }],
      params,
      body: changeConnectionBody,
      responses: { 200: { description: 'The connection', schema: connectionSchema } },
      errors: ['connection_not_found', 'connection_check_failed', 'credentials_unreadable', ...outages],
      handle: async ({ actor, params: { connection_id }, body, expectedVersions }) => {
        const change = { displayName: body.display_name, keys: body.credentials, config: body.config };
        return ok(toConnectionDto(await connections.change(actor, connection_id, change, expectedVersions)));
      },
    }),
    route({
      method: 'delete',
      path: one,
      operationId: 'deleteConnection',
      tag,
      summary: 'Take a connection away, and its grant back where that is possible',
      access: 'connection:write',
      params,
      responses: { 204: { description: 'It is gone; what was imported stays' } },
      errors: ['connection_not_found'],
      handle: async ({ actor, params: { connection_id } }) => {
        await connections.remove(actor, connection_id);
        return noContent();
      },
    }),
    route({
      method: 'post',
      path: `${one}/browse`,
      operationId: 'browseConnection',
      tag,
      summary: 'Look into a folder at the provider',
      access: 'connection:read',
      limits: [{ limit: 'search', by: 'user' }],
      params,
      body: browseBody,
      responses: { 200: { description: 'What is in it, up to a thousand or so', schema: browseSchema } },
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
        return ok({ path, files: found.files.map(toRemoteFileDto), next_page: cursors.encode(next, list) });
      },
    }),
  ];
}
