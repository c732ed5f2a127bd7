import { z } from 'zod';
import { type CursorCodec, cursorPaginationQuery } from '#src/http/request/pagination.ts';
import { uuidPathParam } from '#src/http/request/validation.ts';
import { createdAnswer, noContentAnswer, okAnswer } from '#src/http/response/answers.ts';
import { defineRoute, type HttpRoute } from '#src/http/routing/route.ts';
import {
  apiKeyListSchema,
  apiKeyWithSecretSchema,
  createApiKeyBody,
  rotateApiKeyBody,
  toApiKeyDto,
  toApiKeyWithSecretDto,
} from './api-keys.schema.ts';
import type { ApiKeysService } from './api-keys.service.ts';

const params = z.strictObject({ key_id: uuidPathParam('api_key_not_found') });

/**
 * Creating a key is not idempotent: an answer that is kept for an `Idempotency-Key` would keep the secret, too.
 */
export function apiKeysRoutes(apiKeys: ApiKeysService, cursors: CursorCodec): HttpRoute[] {
  return [
    defineRoute({
      method: 'post',
      path: '/entity/org/api-keys',
      operationId: 'createApiKey',
      tag: 'api-keys',
      summary: 'Create an API key; the answer shows its secret, once',
      access: 'organization:administer',
      body: createApiKeyBody,
      responses: { 201: { description: 'The new key with its secret', schema: apiKeyWithSecretSchema } },
      errors: ['api_key_limit_reached', 'team_not_found'],
      handle: async ({ actor, body }) => createdAnswer(toApiKeyWithSecretDto(await apiKeys.create(actor, body))),
    }),
    defineRoute({
      method: 'get',
      path: '/entity/org/api-keys',
      operationId: 'listApiKeys',
      tag: 'api-keys',
      summary: 'List the API keys of the organization, newest first',
      access: 'organization:administer',
      query: z.strictObject(cursorPaginationQuery),
      responses: { 200: { description: 'A page of keys, without their secrets', schema: apiKeyListSchema } },
      handle: async ({ actor, query: { limit, cursor } }) => {
        const list = { list: 'api-keys' };
        const { items, last } = await apiKeys.list(actor, { limit, after: cursors.decode(cursor, list) });
        return okAnswer({ items: items.map(toApiKeyDto), next_cursor: cursors.encode(last, list) });
      },
    }),
    defineRoute({
      method: 'post',
      path: '/entity/org/api-keys/:key_id/rotate',
      operationId: 'rotateApiKey',
      tag: 'api-keys',
      summary: 'Replace the secret of an API key; the previous one stops working at once',
      access: 'organization:administer',
      params,
      body: rotateApiKeyBody,
      responses: { 200: { description: 'The key with its new secret', schema: apiKeyWithSecretSchema } },
      errors: ['api_key_not_found'],
      handle: async ({ actor, params: { key_id }, body: { expiresAt } }) =>
        okAnswer(toApiKeyWithSecretDto(await apiKeys.rotate(actor, key_id, expiresAt))),
    }),
    defineRoute({
      method: 'delete',
      path: '/entity/org/api-keys/:key_id',
      operationId: 'revokeApiKey',
      tag: 'api-keys',
      summary: 'Revoke an API key at once',
      access: 'organization:administer',
      params,
      responses: { 204: { description: 'The key no longer works; what only it could read is erased later' } },
      errors: ['api_key_not_found'],
      handle: async ({ actor, params: { key_id } }) => {
        await apiKeys.revoke(actor, key_id);
        return noContentAnswer();
      },
    }),
  ];
}
