import { z } from 'zod';
import { maxAnchorWords } from '#src/domain/agents/drafts.ts';
import {
  agentRequestFields,
  anchorFitFields,
  clearableTextField,
  oneLineField,
  uuidField,
} from '#src/http/request/fields.ts';
import { uuidPathParam } from '#src/http/request/validation.ts';
import { okAnswer } from '#src/http/response/answers.ts';
import { defineRoute, type HttpRoute } from '#src/http/routing/route.ts';
import type { AgentAnchorWords, AnchorWordsService, ExpandAnchorWordsInput } from './anchor-words.service.ts';

const word = oneLineField(100);
const chosen = z.array(word).max(maxAnchorWords).default([]);
const maxExcludedWords = 1_000;

const metadata = ['agent_name', 'agent_prompt', 'chat_model', 'tags'] as const;

const expandBody = z
  .strictObject({
    agent_id: uuidField.optional().describe('A published agent; left out for a draft.'),
    agent_name: agentRequestFields.agent_name,
    agent_prompt: z.string().max(100_000).optional(),
    chat_model: clearableTextField(oneLineField(200)).optional().describe("The deployment's default when left out."),
    tags: agentRequestFields.tags,
    words: chosen.describe('Chosen already.'),
    anchor_words: chosen.describe('Another name of `words`.'),
    exclude_words: z.array(word).max(maxExcludedWords).default([]).describe('Not to be proposed again.'),
  })
  .superRefine((body, context) => {
    const sent = metadata.filter((field) => body[field] != null && body[field].length > 0);
    if (body.agent_id !== undefined) {
      for (const field of sent) {
        context.addIssue({
          code: 'custom',
          path: [field],
          message: 'must be omitted if agent_id is sent, because the value of that agent is used',
        });
      }
      return;
    }
    const says = [body.agent_name, body.agent_prompt, ...(body.tags ?? []), ...body.words, ...body.anchor_words];
    if (says.every((text) => !/\p{L}/u.test(text ?? ''))) {
      const message = 'say what the agent is about, or send agent_id';
      context.addIssue({ code: 'custom', path: ['agent_prompt'], message });
    }
  });

export const anchorWordCandidatesSchema = z.strictObject({
  anchor_word_candidates: z.array(z.string()).describe('Best first.'),
});

export const anchorWordsSchema = z
  .strictObject({
    agent_id: uuidField,
    anchor_words: z.record(z.string(), z.int()).describe('Word or phrase → weight, 1 to 10.'),
    anchor_word_count: z.int(),
    ...anchorFitFields,
    created_at: z.iso.datetime(),
  })
  .meta({ id: 'AnchorWords' });

function toExpandInput(body: z.output<typeof expandBody>): ExpandAnchorWordsInput {
  const { agent_id, agent_name = '', agent_prompt = '', chat_model = null, tags = [] } = body;
  const spelled = (words: readonly string[]) => words.filter((word) => word.trim() !== '');
  return {
    persona:
      agent_id === undefined
        ? { agentName: agent_name, agentPrompt: agent_prompt, chatModel: chat_model, tags }
        : { agentId: agent_id },
    words: spelled([...body.words, ...body.anchor_words]),
    excludeWords: spelled(body.exclude_words),
  };
}

function toAnchorWordsDto({
  agentId,
  anchorWords,
  anchorFit,
  helpfulAnchorWords,
  createdAt,
}: AgentAnchorWords): z.input<typeof anchorWordsSchema> {
  return {
    agent_id: agentId,
    anchor_words: anchorWords,
    anchor_word_count: Object.keys(anchorWords).length,
    anchor_fit: anchorFit,
    helpful_anchor_words: helpfulAnchorWords,
    created_at: createdAt.toISOString(),
  };
}

const params = z.strictObject({ agent_id: uuidPathParam('agent_not_found') });

export function anchorWordsRoutes(anchorWords: AnchorWordsService): HttpRoute[] {
  return [
    defineRoute({
      method: 'post',
      path: '/anchor-words/expand',
      operationId: 'expandAnchorWords',
      tag: 'anchor-words',
      summary: 'Propose words that an agent, or a draft of one, could be anchored by',
      access: 'user',
      limits: [{ limit: 'chat', by: 'user' }],
      body: expandBody,
      responses: { 200: { description: 'Up to forty words', schema: anchorWordCandidatesSchema } },
      errors: [
        'agent_not_found',
        'unknown_model',
        'model_unavailable',
        'model_rejected',
        'model_response_invalid',
        'model_not_configured',
      ],
      handle: async ({ actor, body, signal }) =>
        okAnswer({ anchor_word_candidates: await anchorWords.expand(actor, toExpandInput(body), signal) }),
    }),
    defineRoute({
      method: 'get',
      path: '/anchor-words/:agent_id',
      operationId: 'getAnchorWords',
      tag: 'anchor-words',
      summary: 'The words that an agent is anchored by',
      access: 'agent:read',
      params,
      responses: { 200: { description: 'The words', schema: anchorWordsSchema } },
      errors: ['agent_not_found', 'anchor_words_not_initialized'],
      handle: async ({ actor, params: { agent_id } }) =>
        okAnswer(toAnchorWordsDto(await anchorWords.get(actor, agent_id))),
    }),
  ];
}
