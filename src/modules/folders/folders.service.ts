import { v7 as uuidv7 } from 'uuid';
import { can } from '#src/domain/policy.ts';
import { type Actor, aclOf, type Visibility } from '#src/domain/visibility.ts';
import { appError } from '#src/errors.ts';
import type { Db } from '#src/ports/database.ts';
import type { FolderNode, FolderView, SystemRole } from './folders.model.ts';
import { createFoldersRepository } from './folders.repository.ts';

export function createFoldersService(deps: { db: Db }) {
  const folders = createFoldersRepository(deps.db);

  const get = async (actor: Actor, folderId: string): Promise<FolderView> => {
    const folder = await folders.findReadable(actor, folderId);
    if (folder === undefined) throw appError('folder_not_found');
    return folder;
  };

  return {
    /** The roots that come with a new account: its personal one and, with a new organization, the organization's. */
    async createSystemRoots(
      trx: Db,
      account: { orgId: string; userId: string; orgName: string; kind: 'organization' | 'user' },
    ): Promise<void> {
      const insertRoot = async (root: {
        name: string;
        systemRole: SystemRole;
        visibility: Visibility;
        ownerId: string | null;
      }): Promise<void> => {
        const id = uuidv7();
        const { orgId, userId } = account;
        await createFoldersRepository(trx).insert({
          ...root,
          id,
          orgId,
          parentId: null,
          rootId: id,
          kind: 'system',
          teamId: null,
          acl: aclOf({ orgId, createdBy: root.ownerId, visibility: root.visibility, teamIds: [] }),
          createdBy: userId,
        });
      };

      if (account.kind === 'organization') {
        await insertRoot({ name: account.orgName, systemRole: 'org_root', visibility: 'org_level', ownerId: null });
      }
      await insertRoot({
        name: 'Personal',
        systemRole: 'personal_root',
        visibility: 'personal',
        ownerId: account.userId,
      });
    },

    /** Every readable folder with its readable documents, as trees. */
    async tree(actor: Actor): Promise<FolderNode[]> {
      const [rows, documents] = await Promise.all([folders.listReadable(actor), folders.listDocumentNames(actor)]);
      const nodes = new Map(rows.map((row): [string, FolderNode] => [row.id, { ...row, folders: [], documents: [] }]));
      for (const document of documents) nodes.get(document.folderId)?.documents.push(document);
      const roots: FolderNode[] = [];
      for (const node of nodes.values()) {
        const siblings = node.parentId === null ? roots : nodes.get(node.parentId)?.folders;
        siblings?.push(node);
      }
      return roots;
    },

    async children(actor: Actor, folderId: string) {
      await get(actor, folderId);
      const [children, documents] = await Promise.all([
        folders.listChildren(actor, folderId),
        folders.listDocumentNames(actor, folderId),
      ]);
      return { folders: children, documents };
    },

    get,

    /**
     * The folder that a new document goes into: the named one, else the caller's personal root. It stays until the end
     * of `trx`. Throws `folder_not_found`, and `forbidden` when the caller may read it but not write to it.
     */
    async requireTarget(trx: Db, actor: Actor, folderId: string | undefined): Promise<FolderView> {
      const repository = createFoldersRepository(trx);
      const id = folderId ?? (await repository.personalRootId(actor.userId));
      const folder = id === undefined ? undefined : await repository.findReadableForLink(actor, id);
      if (folder === undefined) throw appError('folder_not_found');
      if (!can(actor, 'folder:write', { ...folder, createdBy: folder.ownerId })) {
        throw appError('forbidden', { detail: 'You may not add documents to this folder.' });
      }
      return folder;
    },
  };
}

export type FoldersService = ReturnType<typeof createFoldersService>;
