import { ok } from '#src/http/response/answers.ts';
import { type Route, route } from '#src/http/routing/route.ts';
import { modelListSchema, toModelDto } from './models.schema.ts';
import type { ModelsService } from './models.service.ts';

export function modelsRoutes(models: Pick<ModelsService, 'list'>): Route[] {
  return [
    route({
      method: 'get',
      path: '/models',
      operationId: 'listModels',
      tag: 'models',
      summary: 'The models that this deployment offers, the defaults first',
      access: 'user',
      responses: { 200: { description: 'The models', schema: modelListSchema } },
      handle: async () => ok({ items: (await models.list()).map(toModelDto) }),
    }),
  ];
}
