import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { z } from 'zod';
import { idParam } from '#src/http/request/validation.ts';
import { file, ok } from '#src/http/response/answers.ts';
import { type Route, route } from '#src/http/routing/route.ts';
import type { VersionEvaluationsService } from '#src/modules/evaluations/version-evaluations.service.ts';
import { startEvaluationBody, toStartEvaluationFields, toVersionDto, versionSchema } from './drafts.schema.ts';

/** Whoever does not say how long he waits asks again. */
const defaultWaitSeconds = 15;

const params = z.strictObject({ draft_id: idParam('draft_not_found'), version_id: idParam('version_not_found') });
const reportTypes = ['text/markdown', 'application/json', 'text/html'] as const;

export function versionEvaluationsRoutes(evaluations: VersionEvaluationsService): Route[] {
  return [
    route({
      method: 'post',
      path: '/agent-drafts/:draft_id/versions/:version_id/eval/start',
      operationId: 'startEvaluation',
      tag: 'agent-drafts',
      summary: 'Evaluate a version; its scores stay with it. While one is under way, that one is waited for',
      access: 'draft:write',
      params,
      body: startEvaluationBody,
      bodyLimitBytes: 10_000_000,
      idempotent: true,
      responses: { 200: { description: 'The version with its scores, or as far as it is', schema: versionSchema } },
      errors: [
        'forbidden',
        'draft_not_found',
        'version_not_found',
        'evaluation_case_limit_reached',
        'unknown_golden_case',
        'evaluator_unavailable',
      ],
      handle: async ({ actor, params: { draft_id, version_id }, body, waitSeconds, signal }) => {
        const input = { draftId: draft_id, versionId: version_id, ...toStartEvaluationFields(body) };
        const wait = { seconds: waitSeconds ?? defaultWaitSeconds, signal };
        return ok(toVersionDto(await evaluations.start(actor, input, wait)));
      },
    }),
    route({
      method: 'get',
      path: '/agent-drafts/:draft_id/versions/:version_id/eval/report',
      operationId: 'reportEvaluation',
      tag: 'agent-drafts',
      summary: 'The scores of a version beside those of its parent, as a file',
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
      errors: [
        'unsupported_report_format',
        'draft_not_found',
        'version_not_found',
        'evaluation_not_found',
        'range_not_satisfiable',
      ],
      handle: async ({ actor, params: { draft_id, version_id }, query: { format } }) => {
        const of = { draftId: draft_id, versionId: version_id };
        const { text, ...described } = await evaluations.report(actor, of, format);
        const bytes = Buffer.from(text);
        return file({
          ...described,
          sizeBytes: bytes.length,
          etag: createHash('sha256').update(bytes).digest('hex'),
          open: async (range) =>
            Readable.from([range === undefined ? bytes : bytes.subarray(range.start, range.end + 1)]),
        });
      },
    }),
  ];
}
