import { z } from 'zod';
import { type CursorCodec, cursorPaginationQuery } from '#src/http/request/pagination.ts';
import { okAnswer, textFileAnswer } from '#src/http/response/answers.ts';
import { defineRoute, type HttpRoute } from '#src/http/routing/route.ts';
import {
  comparisonFiltersQuery,
  comparisonListSchema,
  comparisonWithResultSchema,
  toComparisonDto,
  toComparisonWithResultDto,
} from './comparisons.schema.ts';
import type { ComparisonsService } from './comparisons.service.ts';

const params = z.strictObject({
  comparison_id: z.string().regex(/^[\w.~-]{1,200}$/, { error: 'comparison_not_found' }),
});
const reportTypes = ['text/markdown', 'application/json', 'text/html'] as const;

export function comparisonsRoutes(comparisons: ComparisonsService, cursors: CursorCodec): HttpRoute[] {
  return [
    defineRoute({
      method: 'get',
      path: '/agent-eval/comparisons',
      operationId: 'listComparisons',
      tag: 'agent-eval',
      summary: 'List the comparisons of the drafts that you may read, newest first',
      access: 'user',
      query: z.strictObject({ ...cursorPaginationQuery, ...comparisonFiltersQuery }),
      responses: { 200: { description: 'A page of comparisons', schema: comparisonListSchema } },
      handle: async ({ actor, query: { limit, cursor, ...fields } }) => {
        const list = { list: 'comparisons', ...fields };
        const filters = { draftId: fields.draft_id, versionId: fields.version_id };
        const page = { limit, after: cursors.decode(cursor, list) };
        const { items, last } = await comparisons.list(actor, filters, page);
        return okAnswer({ items: items.map(toComparisonDto), next_cursor: cursors.encode(last, list) });
      },
    }),
    defineRoute({
      method: 'get',
      path: '/agent-eval/comparisons/:comparison_id',
      operationId: 'getComparison',
      tag: 'agent-eval',
      summary: 'A comparison with its result',
      access: 'draft:read',
      params,
      responses: { 200: { description: 'The comparison', schema: comparisonWithResultSchema } },
      errors: ['comparison_not_found'],
      handle: async ({ actor, params: { comparison_id } }) =>
        okAnswer(toComparisonWithResultDto(await comparisons.get(actor, comparison_id))),
    }),
    defineRoute({
      method: 'get',
      path: '/agent-eval/comparisons/:comparison_id/report',
      operationId: 'reportComparison',
      tag: 'agent-eval',
      summary: 'The result of a comparison, as a file',
      access: 'draft:read',
      params,
      query: z.strictObject({
        format: z
          .string()
          .default('markdown')
          .meta({ enum: ['markdown', 'json', 'html'] })
          .describe('`markdown`, `json` or `html`; anything else is 400.'),
      }),
      responses: {
        200: { description: 'The report', contentType: reportTypes },
        206: { description: 'The part that was asked for', contentType: reportTypes },
      },
      errors: ['unsupported_report_format', 'comparison_not_found', 'evaluation_not_found', 'range_not_satisfiable'],
      handle: async ({ actor, params: { comparison_id }, query: { format } }) => {
        return textFileAnswer(await comparisons.report(actor, comparison_id, format));
      },
    }),
  ];
}
