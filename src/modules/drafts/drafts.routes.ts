import { z } from 'zod';
import { uuidPathParam } from '#src/http/request/validation.ts';
import {
  createdAnswer,
  noContentAnswer,
  okAnswer,
  okAnswerWithVersion,
  textFileAnswer,
} from '#src/http/response/answers.ts';
import { defineRoute, type HttpRoute } from '#src/http/routing/route.ts';
import type { VersionEvaluationsService } from '#src/modules/evaluations/version-evaluations.service.ts';
import {
  changeDraftScopeBody,
  commitDraftVersionBody,
  committedDraftVersionSchema,
  createDraftBody,
  draftDetailSchema,
  draftListSchema,
  draftVersionSchema,
  hiddenDraftsSchema,
  renameDraftVersionBody,
  startEvaluationBody,
  toCommitVersionInput,
  toCreateDraftInput,
  toDraftDetailDto,
  toDraftSummaryDto,
  toDraftVersionDto,
  toDraftVisibilityScope,
  toEvaluationOptions,
} from './drafts.schema.ts';
import type { DraftsService } from './drafts.service.ts';

/** Seconds that a request waits for an evaluation unless its `Prefer: wait` header says otherwise. */
const defaultWaitSeconds = 15;

const params = z.strictObject({ draft_id: uuidPathParam('draft_not_found') });
const versionParams = z.strictObject({ ...params.shape, version_id: uuidPathParam('version_not_found') });
const reportTypes = ['text/markdown', 'application/json', 'text/html'] as const;

export function draftsRoutes(drafts: DraftsService, evaluations: VersionEvaluationsService): HttpRoute[] {
  return [
    defineRoute({
      method: 'get',
      path: '/agent-drafts',
      operationId: 'listDrafts',
      tag: 'agent-drafts',
      summary: 'Your drafts that you have not hidden, newest change first',
      access: 'user',
      responses: { 200: { description: 'Your drafts', schema: draftListSchema } },
      handle: async ({ actor }) => okAnswer({ items: (await drafts.list(actor)).map(toDraftSummaryDto) }),
    }),
    defineRoute({
      method: 'get',
      path: '/agent-drafts/hidden',
      operationId: 'listHiddenDrafts',
      tag: 'agent-drafts',
      summary: 'The drafts that you have hidden',
      access: 'user',
      responses: { 200: { description: 'Their ids', schema: hiddenDraftsSchema } },
      handle: async ({ actor }) => okAnswer({ ids: await drafts.listHidden(actor) }),
    }),
    defineRoute({
      method: 'post',
      path: '/agent-drafts',
      operationId: 'createDraft',
      tag: 'agent-drafts',
      summary: 'Start a draft, or fork an agent or a version into one',
      access: 'user',
      body: createDraftBody,
      idempotent: true,
      responses: { 201: { description: 'The draft with its first version', schema: draftDetailSchema } },
      errors: ['agent_not_found', 'version_not_found', 'team_not_found', 'draft_limit_reached', 'unknown_model'],
      handle: async ({ actor, body, newId }) => {
        const draft = await drafts.create(actor, newId, toCreateDraftInput(body));
        return createdAnswer(toDraftDetailDto(draft));
      },
    }),
    defineRoute({
      method: 'get',
      path: '/agent-drafts/:draft_id',
      operationId: 'getDraft',
      tag: 'agent-drafts',
      summary: 'A draft with its whole chain of versions',
      access: 'draft:read',
      params,
      responses: { 200: { description: 'The draft', schema: draftDetailSchema } },
      errors: ['draft_not_found'],
      handle: async ({ actor, params: { draft_id } }) => {
        const draft = await drafts.get(actor, draft_id);
        return okAnswerWithVersion(toDraftDetailDto(draft), draft);
      },
    }),
    defineRoute({
      method: 'patch',
      path: '/agent-drafts/:draft_id/scope',
      operationId: 'changeDraftScope',
      tag: 'agent-drafts',
      summary: 'Change who sees a draft with all its versions',
      access: 'draft:write',
      takesIfMatch: true,
      params,
      body: changeDraftScopeBody,
      responses: { 200: { description: 'The draft', schema: draftDetailSchema } },
      errors: ['forbidden', 'draft_not_found', 'team_not_found'],
      handle: async ({ actor, params: { draft_id }, body, expectedVersions }) =>
        okAnswer(
          toDraftDetailDto(await drafts.changeScope(actor, draft_id, toDraftVisibilityScope(body), expectedVersions)),
        ),
    }),
    defineRoute({
      method: 'delete',
      path: '/agent-drafts/:draft_id',
      operationId: 'deleteDraft',
      tag: 'agent-drafts',
      summary: 'Delete a draft with all its versions; agents published from it stay',
      access: 'draft:write',
      params,
      responses: { 204: { description: 'It is gone' } },
      errors: ['forbidden', 'draft_not_found'],
      handle: async ({ actor, params: { draft_id } }) => {
        await drafts.remove(actor, draft_id);
        return noContentAnswer();
      },
    }),
    defineRoute({
      method: 'post',
      path: '/agent-drafts/:draft_id/hide',
      operationId: 'hideDraft',
      tag: 'agent-drafts',
      summary: 'Hide a draft from your own list',
      access: 'draft:read',
      params,
      responses: { 204: { description: 'It is hidden' } },
      errors: ['draft_not_found'],
      handle: async ({ actor, params: { draft_id } }) => {
        await drafts.setHidden(actor, draft_id, true);
        return noContentAnswer();
      },
    }),
    defineRoute({
      method: 'delete',
      path: '/agent-drafts/:draft_id/hide',
      operationId: 'unhideDraft',
      tag: 'agent-drafts',
      summary: 'Take a draft back into your list',
      access: 'draft:read',
      params,
      responses: { 204: { description: 'It is not hidden' } },
      errors: ['draft_not_found'],
      handle: async ({ actor, params: { draft_id } }) => {
        await drafts.setHidden(actor, draft_id, false);
        return noContentAnswer();
      },
    }),
    defineRoute({
      method: 'post',
      path: '/agent-drafts/:draft_id/versions',
      operationId: 'commitVersion',
      tag: 'agent-drafts',
      summary: 'Commit a version: what is not sent is inherited from the parent',
      access: 'draft:write',
      params,
      body: commitDraftVersionBody,
      idempotent: true,
      responses: { 201: { description: 'The version', schema: committedDraftVersionSchema } },
      errors: [
        'forbidden',
        'draft_not_found',
        'version_not_found',
        'version_has_descendants',
        'version_limit_reached',
        'unknown_model',
      ],
      handle: async ({ actor, params: { draft_id }, body, newId }) => {
        const version = await drafts.commitVersion(actor, draft_id, newId, toCommitVersionInput(body));
        return createdAnswer({ version: toDraftVersionDto(version) });
      },
    }),
    defineRoute({
      method: 'patch',
      path: '/agent-drafts/:draft_id/versions/:version_id',
      operationId: 'renameVersion',
      tag: 'agent-drafts',
      summary: 'Give a version another title',
      access: 'draft:write',
      takesIfMatch: true,
      params: versionParams,
      body: renameDraftVersionBody,
      responses: { 200: { description: 'The version', schema: draftVersionSchema } },
      errors: ['forbidden', 'draft_not_found', 'version_not_found'],
      handle: async ({ actor, params: { draft_id, version_id }, body: { title }, expectedVersions }) =>
        okAnswer(toDraftVersionDto(await drafts.renameVersion(actor, draft_id, version_id, title, expectedVersions))),
    }),
    defineRoute({
      method: 'delete',
      path: '/agent-drafts/:draft_id/versions/:version_id',
      operationId: 'deleteVersion',
      tag: 'agent-drafts',
      summary: 'Delete one version; its child moves to its parent',
      access: 'draft:write',
      params: versionParams,
      responses: { 204: { description: 'It is gone' } },
      errors: ['forbidden', 'draft_not_found', 'version_not_found', 'last_version'],
      handle: async ({ actor, params: { draft_id, version_id } }) => {
        await drafts.removeVersion(actor, draft_id, version_id);
        return noContentAnswer();
      },
    }),
    defineRoute({
      method: 'post',
      path: '/agent-drafts/:draft_id/versions/:version_id/eval/start',
      operationId: 'startEvaluation',
      tag: 'agent-drafts',
      summary: 'Evaluate a version and store its scores; a running evaluation of the version is joined',
      access: 'draft:write',
      params: versionParams,
      body: startEvaluationBody,
      bodyLimitBytes: 10_000_000,
      idempotent: true,
      waits: true,
      responses: {
        200: { description: 'The version with its scores, or as far as it is', schema: draftVersionSchema },
      },
      errors: [
        'forbidden',
        'draft_not_found',
        'version_not_found',
        'evaluation_case_limit_reached',
        'unknown_golden_case',
        'evaluator_unavailable',
      ],
      handle: async ({ actor, params: { draft_id, version_id }, body, waitSeconds, signal }) => {
        const input = { draftId: draft_id, versionId: version_id, ...toEvaluationOptions(body) };
        const wait = { seconds: waitSeconds ?? defaultWaitSeconds, signal };
        return okAnswer(toDraftVersionDto(await evaluations.start(actor, input, wait)));
      },
    }),
    defineRoute({
      method: 'get',
      path: '/agent-drafts/:draft_id/versions/:version_id/eval/report',
      operationId: 'reportEvaluation',
      tag: 'agent-drafts',
      summary: 'The scores of a version beside those of its parent, as a file',
      access: 'draft:read',
      params: versionParams,
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
        return textFileAnswer(await evaluations.report(actor, of, format));
      },
    }),
  ];
}
