import { z } from 'zod';
import { created, ok } from '#src/http/answers.ts';
import { idParam } from '#src/http/params.ts';
import { type Route, route } from '#src/http/route.ts';
import {
  committedVersionSchema,
  commitVersionBody,
  createDraftBody,
  draftDetailSchema,
  draftListSchema,
  toCommitVersionInput,
  toCreateDraftInput,
  toDraftDetailDto,
  toDraftSummaryDto,
  toVersionDto,
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
      summary: 'Your drafts, newest change first',
      access: 'user',
      responses: { 200: { description: 'Your drafts', schema: draftListSchema } },
      handle: async ({ actor }) => ok({ items: (await drafts.list(actor)).map(toDraftSummaryDto) }),
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
      handle: async ({ actor, body }) => {
        const draft = await drafts.create(actor, toCreateDraftInput(body));
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
      handle: async ({ actor, params: { draft_id } }) => ok(toDraftDetailDto(await drafts.get(actor, draft_id))),
    }),
    route({
      method: 'post',
      path: '/agent-drafts/:draft_id/versions',
      operationId: 'commitVersion',
      tag: 'agent-drafts',
      summary: 'Commit a version: what is not sent is inherited from the parent',
      access: 'draft:write',
      params,
      body: commitVersionBody,
      idempotent: true,
      responses: { 201: { description: 'The version', schema: committedVersionSchema } },
      errors: [
        'forbidden',
        'draft_not_found',
        'version_not_found',
        'version_has_descendants',
        'version_limit_reached',
        'unknown_model',
      ],
      handle: async ({ actor, params: { draft_id }, body }) => {
        const version = await drafts.commit(actor, draft_id, toCommitVersionInput(body));
        return created({ version: toVersionDto(version) });
      },
    }),
  ];
}
