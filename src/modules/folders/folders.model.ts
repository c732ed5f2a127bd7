import { model } from '#src/adapters/postgres/base-model.ts';
import { text, textArray, timestamp, uuid } from '#src/adapters/postgres/columns.ts';
import type { Visibility } from '#src/domain/visibility.ts';

export class FolderModel extends model('folders', {
  id: uuid(),
  orgId: uuid(),
  parentId: uuid().nullable(),
  rootId: uuid(),
  name: text(),
  kind: text<'system' | 'user'>(),
  systemRole: text<SystemRole>().nullable(),
  visibility: text<Visibility>(),
  ownerId: uuid().nullable(),
  teamId: uuid().nullable(),
  acl: textArray(),
  createdBy: uuid(),
  createdAt: timestamp(),
  updatedAt: timestamp(),
}) {}

export type SystemRole = 'org_root' | 'team_root' | 'personal_root';

/** A folder has the visibility and the keys of its root. `ownerId` is null for what is not one person's. */
export type Folder = {
  id: string;
  orgId: string;
  parentId: string | null;
  rootId: string;
  name: string;
  kind: 'system' | 'user';
  systemRole: SystemRole | null;
  visibility: Visibility;
  ownerId: string | null;
  teamId: string | null;
  acl: string[];
  createdBy: string;
  createdAt: Date;
  updatedAt: Date;
};

/** With what the row alone does not say: whether the team or the person behind it is gone. */
export type FolderView = Folder & { entityMissing: boolean };

export type DocumentName = { folderId: string; id: string; name: string };

export type FolderNode = FolderView & { folders: FolderNode[]; documents: DocumentName[] };
