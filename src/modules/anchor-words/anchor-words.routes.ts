import { z } from 'zod';
import { idParam } from '#src/http/request/validation.ts';
import { ok } from '#src/http/response/answers.ts';
import { type Route, route } from '#src/http/routing/route.ts';
import {
  anchorWordsSchema,
  candidatesSchema,
  expandBody,
  toAnchorWordsDto,
  toExpandInput,
} from './anchor-words.schema.ts';
import type { AnchorWordsService } from './anchor-words.service.ts';

const params = z.strictObject({ agent_id: idParam('agent_not_found') });

export function anchorWordsRoutes(anchorWords: AnchorWordsService): Route[] {
  return [
    route({
      method: 'post',
      path: '/anchor-words/expand',
      operationId: 'expandAnchorWords',
      tag: 'anchor-words',
      summary: 'Propose words that an agent, or a draft of one, could be anchored by',
      access: 'user',
      limits: [{ limit: 'chat', by: 'user' }],
      body: expandBody,
      responses: { 200: { description: 'Up to forty words', schema: candidatesSchema } },
      errors: [
        'agent_not_found',
        'unknown_model',
        'model_unavailable',
        'model_rejected',
        'model_response_invalid',
        'model_not_configured',
      ],
      handle: async ({ actor, body, signal }) =>
        ok({ anchor_word_candidates: await anchorWords.expand(actor, toExpandInput(body), signal) }),
    }),
    route({
      method: 'get',
      path: '/anchor-words/:agent_id',
      operationId: 'getAnchorWords',
      tag: 'anchor-words',
      summary: 'The words that an agent is anchored by',
      access: 'agent:read',
      params,
      responses: { 200: { description: 'The words', schema: anchorWordsSchema } },
      errors: ['agent_not_found', 'anchor_words_not_initialized'],
      handle: async ({ actor, params: { agent_id } }) => ok(toAnchorWordsDto(await anchorWords.get(actor, agent_id))),
    }),
  ];
}
