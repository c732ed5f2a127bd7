import { mayPerformAction } from '#src/domain/access/policy.ts';
import { consentCodeSchema, finishConsentBody, oauthCallbackQuery } from '#src/http/request/fields.ts';
import { noContentAnswer, okAnswer, seeOtherRedirectAnswer } from '#src/http/response/answers.ts';
import { defineRoute, type HttpRoute } from '#src/http/routing/route.ts';
import type { ToolCatalogService } from './tool-catalog.service.ts';
import type { ToolConnectionsService } from './tool-connections.service.ts';
import {
  authorizeToolQuery,
  authorizeToolSchema,
  connectedToolProviderSchema,
  connectToolBody,
  providerConnectionListSchema,
  toolListSchema,
  toolProviderParams,
  toProviderConnectionDto,
  toToolDto,
} from './tools.schema.ts';

const tag = 'tools';

export function toolsRoutes(catalog: ToolCatalogService, connections: ToolConnectionsService): HttpRoute[] {
  return [
    defineRoute({
      method: 'get',
      path: '/agents/tools',
      operationId: 'listTools',
      tag,
      summary: 'The tools that agents can be given, and what your organization has of them',
      access: 'user',
      responses: { 200: { description: 'The tools', schema: toolListSchema } },
      handle: async ({ actor }) => okAnswer({ items: (await catalog.list(actor.orgId)).map(toToolDto) }),
    }),
    defineRoute({
      method: 'get',
      path: '/agents/tools/connections',
      operationId: 'listToolConnections',
      tag,
      summary: 'The providers of tools, and how your organization is connected to them',
      access: 'user',
      responses: { 200: { description: 'The providers', schema: providerConnectionListSchema } },
      handle: async ({ actor }) => {
        const isAdmin = mayPerformAction(actor, 'organization:administer', actor);
        const views = await catalog.listProviders(actor.orgId);
        return okAnswer({ items: views.map((view) => toProviderConnectionDto(isAdmin, view)), is_org_admin: isAdmin });
      },
    }),
    defineRoute({
      method: 'get',
      path: '/agents/tools/:provider/authorize',
      operationId: 'authorizeTool',
      tag,
      summary: 'Begin a consent at a provider, in the name of your organization',
      access: 'organization:administer',
      limits: [{ limit: 'connect', by: 'user' }],
      params: toolProviderParams,
      query: authorizeToolQuery,
      responses: { 200: { description: 'Where to send the browser', schema: authorizeToolSchema } },
      errors: ['provider_not_found', 'wrong_auth_kind', 'provider_not_configured'],
      handle: async ({ actor, params: { provider }, query: { scopes, return_to }, publicUrl }) => {
        const consent = { provider, scopes, returnTo: return_to, publicUrl };
        const url = await connections.beginConsent(actor, consent);
        return okAnswer({ authorize_url: url }, { 'Cache-Control': 'no-store' });
      },
    }),
    defineRoute({
      method: 'get',
      path: '/agents/tools/:provider/callback',
      operationId: 'returnFromToolConsent',
      tag,
      summary: 'Where a provider redirects the browser after a consent, which it does not finish yet',
      access: 'public',
      limits: [{ limit: 'connect', by: 'ip' }],
      params: toolProviderParams,
      query: oauthCallbackQuery,
      responses: {
        200: { description: 'The code to finish with, if no `return_to` was given', schema: consentCodeSchema },
        303: { description: 'On to `return_to`, with `consent_code` or `error`' },
      },
      errors: ['provider_not_found', 'consent_invalid', 'consent_denied'],
      handle: async ({ params: { provider }, query: { state, code, error, iss } }) => {
        const back = await connections.comeBack({ provider, state, code, error, issuer: iss });
        if (back.location !== null) return seeOtherRedirectAnswer(back.location);
        return okAnswer({ consent_code: back.consentCode }, { 'Cache-Control': 'no-store' });
      },
    }),
    defineRoute({
      method: 'post',
      path: '/agents/tools/:provider/finish',
      operationId: 'finishToolConsent',
      tag,
      summary: 'Finish a consent that you began, with the code from its callback',
      access: 'organization:administer',
      limits: [{ limit: 'connect', by: 'user' }],
      params: toolProviderParams,
      body: finishConsentBody,
      responses: { 200: { description: 'The connection', schema: connectedToolProviderSchema } },
      errors: [
        'provider_not_found',
        'wrong_auth_kind',
        'consent_invalid',
        'provider_not_configured',
        'provider_rejected',
        'provider_unavailable',
      ],
      handle: async ({ actor, params: { provider }, body: { consentCode } }) => {
        await connections.finishConsent(actor, { provider, consentCode });
        return okAnswer({
          connection: toProviderConnectionDto(true, await catalog.getProvider(actor.orgId, provider)),
        });
      },
    }),
    defineRoute({
      method: 'post',
      path: '/agents/tools/:provider/connection',
      operationId: 'connectTool',
      tag,
      summary: 'Connect your organization to a provider by a key, or by another key',
      access: 'organization:administer',
      limits: [{ limit: 'connect', by: 'user' }],
      params: toolProviderParams,
      body: connectToolBody,
      responses: { 204: { description: 'It is connected' } },
      errors: ['provider_not_found', 'wrong_auth_kind', 'connection_check_failed', 'provider_unavailable'],
      handle: async ({ actor, params: { provider }, body }) => {
        await connections.connectByKey(actor, provider, body.api_key);
        return noContentAnswer();
      },
    }),
    defineRoute({
      method: 'delete',
      path: '/agents/tools/:provider/connection',
      operationId: 'disconnectTool',
      tag,
      summary: 'Take the connection to a provider away, and its grant back where that is possible',
      access: 'organization:administer',
      params: toolProviderParams,
      responses: { 204: { description: 'There is none' } },
      errors: ['provider_not_found'],
      handle: async ({ actor, params: { provider } }) => {
        await connections.disconnect(actor, provider);
        return noContentAnswer();
      },
    }),
  ];
}
