import { model } from '#src/adapters/postgres/base-model.ts';
import { boolean, integer, type Row, shape, text, textArray, timestamp, uuid } from '#src/adapters/postgres/shapes.ts';
import type { Visibility } from '#src/domain/access/visibility.ts';

export class FolderModel extends model('folders', {
  id: uuid(),
  orgId: uuid(),
  parentId: uuid().nullable(),
  rootId: uuid(),
  name: text(),
  kind: text<'system' | 'user'>(),
  systemRole: text<FolderSystemRole>().nullable(),
  visibility: text<Visibility>(),
  ownerId: uuid().nullable(),
  teamId: uuid().nullable(),
  acl: textArray(),
  createdBy: uuid(),
  createdAt: timestamp(),
  updatedAt: timestamp(),
  version: integer(),
}) {}

export type FolderSystemRole = 'org_root' | 'team_root' | 'personal_root';

/**
 * The fields `visibility` and `acl` of a folder equal those of its root folder. `ownerId` is null for folders of a team
 * or an organization.
 */
export type Folder = Row<typeof FolderModel>;

export const folderView = shape({ ...FolderModel.columns, entityMissing: boolean() });

export type FolderView = Row<typeof folderView>;

export const documentNameInFolder = shape({ folderId: uuid(), id: uuid(), name: text() });

export type DocumentNameInFolder = Row<typeof documentNameInFolder>;

export type FolderNode = FolderView & { folders: FolderNode[]; documents: DocumentNameInFolder[] };
