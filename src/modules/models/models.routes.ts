import { z } from 'zod';
import { okAnswer } from '#src/http/response/answers.ts';
import { defineRoute, type HttpRoute } from '#src/http/routing/route.ts';
import { rerankerTypeField } from '#src/http/shared-schemas.ts';
import type { ModelsService, SelectableModel } from './models.service.ts';

const price = z.number().describe('US dollars for a million tokens.');

const modelSchema = z
  .strictObject({
    id: z.string(),
    kind: z.enum(['chat', 'embedding', 'reranker']),
    default: z.boolean().describe('True for the default model of its kind.'),
    context_window: z
      .int()
      .nullable()
      .describe('Tokens that a request may hold; null where its provider does not say.'),
    dimensions: z.int().nullable().describe("Of an embedding model's vectors; null where its provider does not say."),
    reranking_type: rerankerTypeField
      .nullable()
      .describe('Which `reranking_type` of a chat a reranker serves; null for other models.'),
    prices: z
      .strictObject({ input: price, cached_input: price, output: price })
      .nullable()
      .describe('Null: unknown, and counted as nothing.'),
    local: z.boolean().describe("Runs on the deployment's own machine."),
  })
  .meta({ id: 'Model' });

export const modelListSchema = z.strictObject({ items: z.array(modelSchema) });

function toModelDto(model: SelectableModel): z.input<typeof modelSchema> {
  const { price } = model;
  return {
    id: model.id,
    kind: model.kind,
    default: model.isDefault,
    context_window: model.contextWindow,
    dimensions: model.dimensions,
    reranking_type: model.rerankingType,
    prices: price && { input: price.input, cached_input: price.cachedInput, output: price.output },
    local: model.isLocal,
  };
}

export function modelsRoutes(models: Pick<ModelsService, 'list'>): HttpRoute[] {
  return [
    defineRoute({
      method: 'get',
      path: '/models',
      operationId: 'listModels',
      tag: 'models',
      summary: 'The models that this deployment offers, the defaults first',
      access: 'user',
      responses: { 200: { description: 'The models', schema: modelListSchema } },
      handle: async () => okAnswer({ items: (await models.list()).map(toModelDto) }),
    }),
  ];
}
