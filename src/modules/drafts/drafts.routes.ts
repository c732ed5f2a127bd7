import { z } from 'zod';
import { idParam } from '#src/http/request/validation.ts';
import { created, noContent, ok, versioned } from '#src/http/response/answers.ts';
import { type Route, route } from '#src/http/routing/route.ts';
import {
  changeScopeBody,
  createDraftBody,
  draftDetailSchema,
  draftListSchema,
  hiddenDraftsSchema,
  toCreateDraftInput,
  toDraftDetailDto,
  toDraftSummaryDto,
  toScopeInput,
} from './drafts.schema.ts';
import type { DraftsService } from './drafts.service.ts';

const params = z.strictObject({ draft_id: idParam('draft_not_found') });

export function draftsRoutes(drafts: DraftsService): Route[] {
  return [
    route({
      method: 'get',
      path: '/agent-drafts',
      operationId: 'listDrafts',
      tag: 'agent-drafts',
      summary: 'Your drafts that you have not hidden, newest change first',
      access: 'user',
      responses: { 200: { description: 'Your drafts', schema: draftListSchema } },
      handle: async ({ actor }) => ok({ items: (await drafts.list(actor)).map(toDraftSummaryDto) }),
    }),
    route({
      method: 'get',
      path: '/agent-drafts/hidden',
      operationId: 'listHiddenDrafts',
      tag: 'agent-drafts',
      summary: 'The drafts that you have hidden',
      access: 'user',
      responses: { 200: { description: 'Their ids', schema: hiddenDraftsSchema } },
      handle: async ({ actor }) => ok({ ids: await drafts.listHidden(actor) }),
    }),
    route({
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
        return created(toDraftDetailDto(draft));
      },
    }),
    route({
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
        return versioned(toDraftDetailDto(draft), draft);
      },
    }),
    route({
      method: 'patch',
      path: '/agent-drafts/:draft_id/scope',
      operationId: 'changeDraftScope',
      tag: 'agent-drafts',
      summary: 'Change who sees a draft with all its versions',
      access: 'draft:write',
      takesIfMatch: true,
      params,
      body: changeScopeBody,
      responses: { 200: { description: 'The draft', schema: draftDetailSchema } },
      errors: ['forbidden', 'draft_not_found', 'team_not_found'],
      handle: async ({ actor, params: { draft_id }, body, expectedVersions }) =>
        ok(toDraftDetailDto(await drafts.changeScope(actor, draft_id, toScopeInput(body), expectedVersions))),
    }),
    route({
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
        return noContent();
      },
    }),
    route({
      method: 'post',
      path: '/agent-drafts/:draft_id/hide',
      operationId: 'hideDraft',
      tag: 'agent-drafts',
      summary: 'Take a draft out of your list; nobody else sees a change',
      access: 'draft:read',
      params,
      responses: { 204: { description: 'It is hidden' } },
      errors: ['draft_not_found'],
      handle: async ({ actor, params: { draft_id } }) => {
        await drafts.setHidden(actor, draft_id, true);
        return noContent();
      },
    }),
    route({
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
        return noContent();
      },
    }),
  ];
}
