import { z } from 'zod';
import { ok } from '#src/http/answers.ts';
import { idParam } from '#src/http/params.ts';
import { type Route, route } from '#src/http/route.ts';
import {
  folderChildrenSchema,
  folderSchema,
  folderTreeNodeSchema,
  toDocumentNameDto,
  toFolderDto,
  toFolderTreeDto,
} from './folders.schema.ts';
import type { FoldersService } from './folders.service.ts';

const params = z.strictObject({ folder_id: idParam('folder_not_found') });

export function foldersRoutes(folders: FoldersService): Route[] {
  return [
    route({
      method: 'get',
      path: '/folders',
      operationId: 'listFolders',
      tag: 'folders',
      summary: 'The folders that you may read, as trees',
      access: 'user',
      responses: { 200: { description: 'Root folders with their children', schema: z.array(folderTreeNodeSchema) } },
      handle: async ({ actor }) => ok((await folders.tree(actor)).map((root) => toFolderTreeDto(actor, root))),
    }),
    route({
      method: 'get',
      path: '/folders/:folder_id',
      operationId: 'listFolder',
      tag: 'folders',
      summary: 'The immediate children of a folder',
      access: 'folder:read',
      params,
      responses: { 200: { description: 'Its folders and documents', schema: folderChildrenSchema } },
      errors: ['folder_not_found'],
      handle: async ({ actor, params: { folder_id } }) => {
        const children = await folders.children(actor, folder_id);
        return ok({
          folders: children.folders.map((folder) => toFolderDto(actor, folder)),
          documents: children.documents.map(toDocumentNameDto),
        });
      },
    }),
    route({
      method: 'get',
      path: '/folders/:folder_id/info',
      operationId: 'getFolder',
      tag: 'folders',
      summary: 'One folder',
      access: 'folder:read',
      params,
      responses: { 200: { description: 'The folder', schema: folderSchema } },
      errors: ['folder_not_found'],
      handle: async ({ actor, params: { folder_id } }) => ok(toFolderDto(actor, await folders.get(actor, folder_id))),
    }),
  ];
}
