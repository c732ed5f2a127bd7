import { okAnswer } from '#src/http/response/answers.ts';
import { defineRoute, type HttpRoute } from '#src/http/routing/route.ts';
import { searchDocumentsQuery, searchResultSchema, toSearchResultDto } from './search.schema.ts';
import type { SearchService } from './search.service.ts';

export function searchRoutes(search: SearchService): HttpRoute[] {
  return [
    defineRoute({
      method: 'get',
      path: '/documents/search',
      operationId: 'searchDocuments',
      tag: 'documents',
      summary: 'Search documents by name and text, best first',
      access: 'user',
      limits: [{ limit: 'search', by: 'user' }],
      query: searchDocumentsQuery,
      responses: { 200: { description: 'A page of matches', schema: searchResultSchema } },
      errors: ['service_unavailable'],
      handle: async ({ actor, query: { q, ...page } }) =>
        okAnswer(toSearchResultDto(await search.search(actor, q, page), q)),
    }),
  ];
}
