import { tableModel } from '#src/adapters/postgres/base-model.ts';
import {
  booleanColumn,
  defineRowShape,
  integerColumn,
  type SqlRow,
  textArrayColumn,
  textColumn,
  timestampColumn,
  uuidColumn,
} from '#src/adapters/postgres/shapes.ts';
import type { Visibility } from '#src/domain/access/visibility.ts';

export class FolderModel extends tableModel('folders', {
  id: uuidColumn(),
  orgId: uuidColumn(),
  parentId: uuidColumn().nullable(),
  rootId: uuidColumn(),
  name: textColumn(),
  kind: textColumn<'system' | 'user'>(),
  systemRole: textColumn<FolderSystemRole>().nullable(),
  visibility: textColumn<Visibility>(),
  ownerId: uuidColumn().nullable(),
  teamId: uuidColumn().nullable(),
  acl: textArrayColumn(),
  createdBy: uuidColumn(),
  createdAt: timestampColumn(),
  updatedAt: timestampColumn(),
  version: integerColumn(),
}) {}

export type FolderSystemRole = 'org_root' | 'team_root' | 'personal_root';

/**
 * A folder. Its `visibility` and `acl` equal those of its root folder; `ownerId` is null for folders of teams and
 * organizations.
 */
export type Folder = SqlRow<typeof FolderModel>;

export const folderViewRowShape = defineRowShape({ ...FolderModel.columns, entityMissing: booleanColumn() });

export type FolderView = SqlRow<typeof folderViewRowShape>;

export const documentNameInFolderRowShape = defineRowShape({
  folderId: uuidColumn(),
  id: uuidColumn(),
  name: textColumn(),
});

export type DocumentNameInFolder = SqlRow<typeof documentNameInFolderRowShape>;

export type FolderNode = FolderView & { folders: FolderNode[]; documents: DocumentNameInFolder[] };
