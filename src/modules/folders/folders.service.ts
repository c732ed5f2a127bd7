import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import { can } from '#src/domain/access/policy.ts';
import { type Actor, aclOf, type Visibility } from '#src/domain/access/visibility.ts';
import { appError } from '#src/errors.ts';
import type { DocumentName, FolderNode, FolderView, SystemRole } from './folders.model.ts';
import { createFoldersRepository } from './folders.repository.ts';

/** Of one answer: 2 MB of JSON, which hold up other requests for some 50 ms. */
const MAX_DOCUMENTS = 20_000;

export function createFoldersService({ db, maxDocuments = MAX_DOCUMENTS }: { db: Knex; maxDocuments?: number }) {
  const folders = createFoldersRepository(db);

  const get = async (actor: Actor, folderId: string): Promise<FolderView> => {
    const folder = await folders.findReadable(actor, folderId);
    if (folder === undefined) throw appError('folder_not_found');
    return folder;
  };

  async function documentNames(actor: Actor, folderId?: string): Promise<DocumentName[]> {
    const found = await folders.listDocumentNames(actor, {
      ...(folderId !== undefined && { folderId }),
      limit: maxDocuments + 1,
    });
    if (found.length <= maxDocuments) return found;
    throw appError('too_many_documents', {
      detail: `There are more than ${maxDocuments}: read them a page at a time with GET /documents?folder_id=…`,
    });
  }

  return {
    /** The root that everybody of an organization reads. */
    async createOrganizationRoot(
      trx: Knex,
      organization: { orgId: string; name: string; createdBy: string },
    ): Promise<void> {
      await insertRoot(trx, { ...organization, systemRole: 'org_root', visibility: 'org_level' });
    },

    async createTeamRoot(
      trx: Knex,
      team: { orgId: string; teamId: string; name: string; createdBy: string },
    ): Promise<void> {
      await insertRoot(trx, { ...team, systemRole: 'team_root', visibility: 'team_level' });
    },

    /** A user's own root. */
    async createPersonalRoot(trx: Knex, { orgId, userId }: { orgId: string; userId: string }): Promise<void> {
      const root = { systemRole: 'personal_root', visibility: 'personal', name: 'Personal' } as const;
      await insertRoot(trx, { ...root, orgId, createdBy: userId, ownerId: userId });
    },

    /** The root of an organization is called as the organization is. */
    async renameOrganizationRoot(trx: Knex, orgId: string, name: string): Promise<void> {
      await createFoldersRepository(trx).renameOrganizationRoot(orgId, name);
    },

    /**
     * Every readable folder, with its readable documents unless they are left out, as trees. Throws
     * `too_many_documents`.
     */
    async tree(actor: Actor, { withDocuments }: { withDocuments: boolean }): Promise<FolderNode[]> {
      const [rows, documents] = await Promise.all([
        folders.listReadable(actor),
        withDocuments ? documentNames(actor) : [],
      ]);
      const nodes = new Map(rows.map((row): [string, FolderNode] => [row.id, { ...row, folders: [], documents: [] }]));
      for (const document of documents) nodes.get(document.folderId)?.documents.push(document);
      const roots: FolderNode[] = [];
      for (const node of nodes.values()) {
        const siblings = node.parentId === null ? roots : nodes.get(node.parentId)?.folders;
        siblings?.push(node);
      }
      return roots;
    },

    /** Throws `too_many_documents`. */
    async children(actor: Actor, folderId: string) {
      await get(actor, folderId);
      const [children, documents] = await Promise.all([
        folders.listChildren(actor, folderId),
        documentNames(actor, folderId),
      ]);
      return { folders: children, documents };
    },

    get,

    /** The one of this name, whatever the case of its letters, where the caller may read it. */
    findChild: (actor: Actor, parentId: string, name: string): Promise<FolderView | undefined> =>
      folders.findChild(actor, parentId, name),

    /**
     * The folder that something is to go into: the named one, else the caller's personal root. It stays, and keeps its
     * keys, until the end of `trx`. Throws `folder_not_found`, and `forbidden` when the caller may read it but not write to it.
     */
    async requireTarget(trx: Knex, actor: Actor, folderId: string | undefined): Promise<FolderView> {
      const repository = createFoldersRepository(trx);
      const id = folderId ?? (await repository.personalRootId(actor.userId));
      const folder = id === undefined ? undefined : await repository.findReadableForLink(actor, id);
      if (folder === undefined) throw appError('folder_not_found');
      if (!can(actor, 'folder:write', { ...folder, createdBy: folder.ownerId })) {
        throw appError('forbidden', { detail: 'You may not put anything into this folder.' });
      }
      return folder;
    },
  };
}

async function insertRoot(
  trx: Knex,
  root: {
    orgId: string;
    name: string;
    systemRole: SystemRole;
    visibility: Visibility;
    ownerId?: string;
    teamId?: string;
    createdBy: string;
  },
): Promise<void> {
  const id = uuidv7();
  const { orgId, visibility, ownerId = null, teamId = null } = root;
  const acl = aclOf({ orgId, createdBy: ownerId, visibility, teamIds: teamId === null ? [] : [teamId] });
  await createFoldersRepository(trx).insert({
    ...root,
    id,
    parentId: null,
    rootId: id,
    kind: 'system',
    ownerId,
    teamId,
    acl,
  });
}

export type FoldersService = ReturnType<typeof createFoldersService>;
