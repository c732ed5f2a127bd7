import { z } from 'zod';
import { idParam } from '#src/http/request/validation.ts';
import { created, noContent, ok } from '#src/http/response/answers.ts';
import { type Route, route } from '#src/http/routing/route.ts';
import type { DraftVersionsService } from './draft-versions.service.ts';
import {
  committedVersionSchema,
  commitVersionBody,
  renameVersionBody,
  toCommitVersionInput,
  toVersionDto,
  versionSchema,
} from './drafts.schema.ts';

const draftId = idParam('draft_not_found');
const params = z.strictObject({ draft_id: draftId, version_id: idParam('version_not_found') });

export function draftVersionsRoutes(versions: DraftVersionsService): Route[] {
  return [
    route({
      method: 'post',
      path: '/agent-drafts/:draft_id/versions',
      operationId: 'commitVersion',
      tag: 'agent-drafts',
      summary: 'Commit a version: what is not sent is inherited from the parent',
      access: 'draft:write',
      params: z.strictObject({ draft_id: draftId }),
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
      handle: async ({ actor, params: { draft_id }, body, newId }) => {
        const version = await versions.commit(actor, draft_id, newId, toCommitVersionInput(body));
        return created({ version: toVersionDto(version) });
      },
    }),
    route({
      method: 'patch',
      path: '/agent-drafts/:draft_id/versions/:version_id',
      operationId: 'renameVersion',
      tag: 'agent-drafts',
      summary: 'Give a version another title',
      access: 'draft:write',
      takesIfMatch: true,
      params,
      body: renameVersionBody,
      responses: { 200: { description: 'The version', schema: versionSchema } },
      errors: ['forbidden', 'draft_not_found', 'version_not_found'],
      handle: async ({ actor, params: { draft_id, version_id }, body: { title }, expectedVersions }) =>
        ok(toVersionDto(await versions.rename(actor, draft_id, version_id, title, expectedVersions))),
    }),
    route({
      method: 'delete',
      path: '/agent-drafts/:draft_id/versions/:version_id',
      operationId: 'deleteVersion',
      tag: 'agent-drafts',
      summary: 'Delete one version; what comes after it goes on under its parent',
      access: 'draft:write',
      params,
      responses: { 204: { description: 'It is gone' } },
      errors: ['forbidden', 'draft_not_found', 'version_not_found', 'last_version'],
      handle: async ({ actor, params: { draft_id, version_id } }) => {
        await versions.remove(actor, draft_id, version_id);
        return noContent();
      },
    }),
  ];
}
