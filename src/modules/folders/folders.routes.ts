import { z } from 'zod';
import { uuidPathParam } from '#src/http/request/validation.ts';
import { createdAnswer, noContentAnswer, okAnswer, okAnswerWithVersion } from '#src/http/response/answers.ts';
import { defineRoute, type HttpRoute } from '#src/http/routing/route.ts';
import {
  changeFolderBody,
  createFolderBody,
  deleteFolderQuery,
  folderChildrenSchema,
  folderSchema,
  folderTreeNodeSchema,
  folderTreeQuery,
  toDocumentNameDto,
  toFolderDto,
  toFolderTreeDto,
} from './folders.schema.ts';
import type { FoldersService, FolderTreeChangesService } from './folders.service.ts';

const params = z.strictObject({ folder_id: uuidPathParam('folder_not_found') });

export function foldersRoutes(folders: FoldersService, changes: FolderTreeChangesService): HttpRoute[] {
  return [
    defineRoute({
      method: 'get',
      path: '/folders',
      operationId: 'listFolders',
      tag: 'folders',
      summary: 'Trees of the folders that you may read',
      access: 'user',
      query: folderTreeQuery,
      responses: { 200: { description: 'Root folders with their children', schema: z.array(folderTreeNodeSchema) } },
      errors: ['too_many_documents'],
      handle: async ({ actor, query: { include_documents } }) => {
        const roots = await folders.tree(actor, { withDocuments: include_documents });
        return okAnswer(roots.map((root) => toFolderTreeDto(actor, root)));
      },
    }),
    defineRoute({
      method: 'get',
      path: '/folders/:folder_id',
      operationId: 'listFolder',
      tag: 'folders',
      summary: 'The immediate children of a folder',
      access: 'folder:read',
      params,
      responses: { 200: { description: 'Its folders and documents', schema: folderChildrenSchema } },
      errors: ['folder_not_found', 'too_many_documents'],
      handle: async ({ actor, params: { folder_id } }) => {
        const children = await folders.children(actor, folder_id);
        return okAnswer({
          folders: children.folders.map((folder) => toFolderDto(actor, folder)),
          documents: children.documents.map(toDocumentNameDto),
        });
      },
    }),
    defineRoute({
      method: 'get',
      path: '/folders/:folder_id/info',
      operationId: 'getFolder',
      tag: 'folders',
      summary: 'One folder',
      access: 'folder:read',
      params,
      responses: { 200: { description: 'The folder', schema: folderSchema } },
      errors: ['folder_not_found'],
      handle: async ({ actor, params: { folder_id } }) => {
        const folder = await folders.get(actor, folder_id);
        return okAnswerWithVersion(toFolderDto(actor, folder), folder);
      },
    }),
    defineRoute({
      method: 'post',
      path: '/folders',
      operationId: 'createFolder',
      tag: 'folders',
      summary: 'Create a folder, which the readers of its parent can read',
      access: 'user',
      body: createFolderBody,
      idempotent: true,
      responses: { 201: { description: 'The new folder', schema: folderSchema } },
      errors: ['folder_not_found', 'forbidden', 'name_taken', 'folder_too_deep', 'folder_limit_reached'],
      handle: async ({ actor, body: { name, parent_id }, newId }) =>
        createdAnswer(toFolderDto(actor, await changes.create(actor, newId, { name, parentId: parent_id }))),
    }),
    defineRoute({
      method: 'patch',
      path: '/folders/:folder_id',
      operationId: 'changeFolder',
      tag: 'folders',
      summary: 'Rename a folder, or move it with its contents',
      access: 'folder:write',
      takesIfMatch: true,
      params,
      body: changeFolderBody,
      responses: { 200: { description: 'The changed folder', schema: folderSchema } },
      errors: [
        'folder_not_found',
        'forbidden',
        'system_folder',
        'name_taken',
        'folder_cycle',
        'folder_too_deep',
        'folder_too_large',
      ],
      handle: async ({ actor, params: { folder_id }, body: { name, parent_id }, expectedVersions }) =>
        okAnswer(
          toFolderDto(actor, await changes.change(actor, folder_id, { name, parentId: parent_id }, expectedVersions)),
        ),
    }),
    defineRoute({
      method: 'delete',
      path: '/folders/:folder_id',
      operationId: 'deleteFolder',
      tag: 'folders',
      summary: 'Delete an empty folder, or a folder with its contents',
      access: 'folder:write',
      params,
      query: deleteFolderQuery,
      responses: { 204: { description: 'The folder is deleted, with the documents that were in no other folder' } },
      errors: ['folder_not_found', 'forbidden', 'system_folder', 'folder_not_empty', 'folder_too_large'],
      handle: async ({ actor, params: { folder_id }, query: { cascade } }) => {
        await changes.remove(actor, folder_id, { cascade });
        return noContentAnswer();
      },
    }),
  ];
}
