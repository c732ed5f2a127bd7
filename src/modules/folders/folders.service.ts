import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import type { SelectedFolders } from '#src/adapters/postgres/readable.ts';
import { createOrFindExisting } from '#src/domain/access/idempotency.ts';
import { mayPerformAction } from '#src/domain/access/policy.ts';
import { type Actor, accessKeysOfRow, type RequestActor, type Visibility } from '#src/domain/access/visibility.ts';
import { appError, type IfMatchVersions, requireExpectedVersion } from '#src/errors.ts';
import type { DocumentNameInFolder, FolderNode, FolderSystemRole, FolderView } from './folders.model.ts';
import { createFoldersRepository } from './folders.repository.ts';

/** Maximum documents in a folder tree: 20,000 names are 2 MB of JSON, which block the event loop for 50 ms. */
const MAX_DOCUMENTS = 20_000;
/** Maximum levels of a folder tree with its root, because clients get it as nested JSON in one response. */
const MAX_LEVELS = 32;
const MAX_FOLDERS = 10_000;

export type FoldersService = ReturnType<typeof createFoldersService>;

export function createFoldersService({ db, maxDocuments = MAX_DOCUMENTS }: { db: Knex; maxDocuments?: number }) {
  const folders = createFoldersRepository(db);

  const get = async (actor: Actor, folderId: string): Promise<FolderView> => {
    const folder = await folders.findReadable(actor, folderId);
    if (folder === undefined) throw appError('folder_not_found');
    return folder;
  };

  async function documentNames(actor: Actor, folderId?: string): Promise<DocumentNameInFolder[]> {
    const found = await folders.listDocumentNames(actor, {
      ...(folderId !== undefined && { folderId }),
      limit: maxDocuments + 1,
    });
    if (found.length <= maxDocuments) return found;
    throw appError('too_many_documents', {
      detail: `The folder tree has more than ${maxDocuments} documents. Read them in pages with GET /documents?folder_id=….`,
    });
  }

  return {
    get,

    /** Returns all readable folders as trees, and their documents if `withDocuments`. Throws `too_many_documents`. */
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

    async children(actor: Actor, folderId: string) {
      await get(actor, folderId);
      const [children, documents] = await Promise.all([
        folders.listChildren(actor, folderId),
        documentNames(actor, folderId),
      ]);
      return { folders: children, documents };
    },

    findChild: (actor: Actor, parentId: string, name: string): Promise<FolderView | undefined> =>
      folders.findChild(actor, parentId, name),

    /**
     * Returns the folder `folderId` as the target of a new document or folder, or the caller's personal root folder if
     * it is undefined. Locks it, so that until `trx` ends the folder exists and keeps its access keys. Throws
     * `folder_not_found`, and `forbidden` if the folder is read-only for the caller.
     */
    async requireTarget(trx: Knex, actor: Actor, folderId: string | undefined): Promise<FolderView> {
      const repository = createFoldersRepository(trx);
      const id = folderId ?? (await repository.personalRootId(actor.userId));
      const folder = id === undefined ? undefined : await repository.findReadableForLink(actor, id);
      if (folder === undefined) throw appError('folder_not_found');
      if (!mayPerformAction(actor, 'folder:contribute', folder)) {
        throw appError('forbidden', { detail: 'You have read-only access to the target folder.' });
      }
      return folder;
    },

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

    async createPersonalRoot(trx: Knex, { orgId, userId }: { orgId: string; userId: string }): Promise<void> {
      const root = { systemRole: 'personal_root', visibility: 'personal', name: 'Personal' } as const;
      await insertRoot(trx, { ...root, orgId, createdBy: userId, ownerId: userId });
    },

    async renameOrganizationRoot(trx: Knex, orgId: string, name: string): Promise<void> {
      await createFoldersRepository(trx).renameOrganizationRoot(orgId, name);
    },
  };
}

async function insertRoot(
  trx: Knex,
  root: {
    orgId: string;
    name: string;
    systemRole: FolderSystemRole;
    visibility: Visibility;
    ownerId?: string;
    teamId?: string;
    createdBy: string;
  },
): Promise<void> {
  const id = uuidv7();
  const { orgId, visibility, ownerId = null, teamId = null } = root;
  const acl = accessKeysOfRow({ orgId, createdBy: ownerId, visibility, teamIds: teamId === null ? [] : [teamId] });
  const own = { id, parentId: null, rootId: id, kind: 'system' } as const;
  await createFoldersRepository(trx).insertRoot({ ...root, ...own, ownerId, teamId, acl });
}

type FolderContents = {
  isEmpty(trx: Knex, of: SelectedFolders): Promise<boolean>;
  areMadeBy(trx: Knex, userId: string, of: SelectedFolders): Promise<boolean>;
  share(trx: Knex, of: SelectedFolders): Promise<void>;
  discard(trx: Knex, actor: RequestActor, folderIds: readonly string[]): Promise<void>;
};

type FolderChange = { name: string | undefined; parentId: string | undefined };

export type FolderTreeChangesService = ReturnType<typeof createFolderTreeChangesService>;

/**
 * Creates, renames, moves and deletes folders. Changes of one organization run one after the other, because two
 * concurrent moves could form a cycle. A folder has the visibility and the access keys of its root.
 */
export function createFolderTreeChangesService(deps: {
  db: Knex;
  folders: Pick<FoldersService, 'get' | 'requireTarget' | 'findChild'>;
  contents: FolderContents;
}) {
  const { db, folders, contents } = deps;

  /** Creates a folder with the given id. A repeated call with the same id returns the existing folder. */
  async function create(
    actor: RequestActor,
    id: string,
    { name, parentId }: { name: string; parentId: string },
  ): Promise<FolderView> {
    const insert = async (trx: Knex) => {
      const repository = createFoldersRepository(trx);
      await repository.lockTrees(actor.orgId);
      const parent = await folders.requireTarget(trx, actor, parentId);
      requireLevels((await repository.level(parent.id)) + 1);
      if ((await repository.count(actor.orgId)) >= MAX_FOLDERS) {
        throw appError('folder_limit_reached', {
          detail: `An organization may have at most ${MAX_FOLDERS} folders.`,
        });
      }
      const { orgId, rootId, visibility, ownerId, teamId, acl } = parent;
      const ofRoot = { orgId, rootId, visibility, ownerId, teamId, acl };
      const own = { id, parentId: parent.id, name, kind: 'user', systemRole: null, createdBy: actor.userId } as const;
      if (!(await repository.insert({ ...ofRoot, ...own }))) throw nameTaken();
    };
    const make = async () => {
      await db.transaction(insert);
      return folders.get(actor, id);
    };
    return createOrFindExisting(make, () => createFoldersRepository(db).findReadable(actor, id));
  }

  async function lockWritable(trx: Knex, actor: RequestActor, folderId: string): Promise<FolderView> {
    const repository = createFoldersRepository(trx);
    await repository.lockTrees(actor.orgId);
    const folder = await repository.findReadable(actor, folderId);
    if (folder === undefined) throw appError('folder_not_found');
    if (mayPerformAction(actor, 'folder:write', folder)) return folder;
    throw appError('forbidden', {
      detail: 'Only the user who made this folder, or an admin of its team or organization, may change it.',
    });
  }

  async function requireNewParent(
    trx: Knex,
    actor: RequestActor,
    folder: FolderView,
    parentId: string,
  ): Promise<FolderView> {
    const repository = createFoldersRepository(trx);
    const parent = await folders.requireTarget(trx, actor, parentId);
    const { ids, height } = await repository.subtree(folder.id);
    if (ids.includes(parent.id)) {
      throw appError('folder_cycle', { detail: 'parent_id is the folder itself, or a folder below it.' });
    }
    requireLevels((await repository.level(parent.id)) + height);
    return parent;
  }

  /** Throws `forbidden` if the caller would take away folders or documents that only an admin may take away. */
  async function requireMayRemoveContents(
    trx: Knex,
    actor: RequestActor,
    folder: FolderView,
    folderIds: readonly string[],
  ): Promise<void> {
    if (mayPerformAction(actor, 'folder:manage', folder)) return;
    const { orgId, userId } = actor;
    const isOwn =
      (await createFoldersRepository(trx).areMadeBy(userId, folderIds)) &&
      (await contents.areMadeBy(trx, userId, { orgId, folderIds }));
    if (isOwn) return;
    throw appError('forbidden', {
      detail: 'The folder contains folders or documents of other users. Ask an admin of the team or organization.',
    });
  }

  /**
   * Moves a folder with its contents into the tree of another root. Must run before any other update of the folder: its
   * `for update` lock waits for transactions that are linking documents (`for key share`), which would otherwise use
   * the access keys of the old root. A plain update does not wait for them.
   */
  async function moveToRoot(trx: Knex, actor: RequestActor, folder: FolderView, parent: FolderView): Promise<void> {
    const repository = createFoldersRepository(trx);
    const { ids } = await repository.subtree(folder.id);
    await repository.lock(ids);
    await requireMayRemoveContents(trx, actor, folder, ids);
    await repository.setRoot(ids, parent);
    await contents.share(trx, { orgId: folder.orgId, folderIds: ids });
  }

  return {
    create,

    /** Returns the folder at a path below the target folder (the caller's root without one), and creates what is missing. */
    async ensurePath(actor: RequestActor, targetId: string | null, path: readonly string[]): Promise<{ id: string }> {
      let folder: { id: string } = await folders.requireTarget(db, actor, targetId ?? undefined);
      for (const name of path) {
        const parentId = folder.id;
        const find = () => folders.findChild(actor, parentId, name);
        // A concurrent import of another file may create the same folder first; then that folder is used.
        folder =
          (await find()) ?? (await createOrFindExisting(() => create(actor, uuidv7(), { name, parentId }), find));
      }
      return folder;
    },

    async change(
      actor: RequestActor,
      folderId: string,
      { name, parentId }: FolderChange,
      expected: IfMatchVersions,
    ): Promise<FolderView> {
      await db.transaction(async (trx) => {
        const folder = await lockWritable(trx, actor, folderId);
        requireExpectedVersion(expected, folder);
        requireUserFolder(folder);
        const parent = parentId === undefined ? undefined : await requireNewParent(trx, actor, folder, parentId);
        if (parent !== undefined && parent.rootId !== folder.rootId) await moveToRoot(trx, actor, folder, parent);
        const changed = { name: name ?? folder.name, parentId: parentId ?? folder.parentId };
        if (!(await createFoldersRepository(trx).update(folderId, changed))) throw nameTaken();
      });
      return folders.get(actor, folderId);
    },

    /**
     * Deletes a folder. `cascade` also deletes its contents, for an admin including those of other users. Throws
     * `folder_not_found`, `forbidden`, `system_folder`, `folder_not_empty`, `folder_too_large`.
     */
    async remove(actor: RequestActor, folderId: string, { cascade }: { cascade: boolean }): Promise<void> {
      await db.transaction(async (trx) => {
        const repository = createFoldersRepository(trx);
        const folder = await lockWritable(trx, actor, folderId);
        requireUserFolder(folder);
        const { ids } = await repository.subtree(folderId);
        await repository.lock(ids);
        if (!cascade && (ids.length > 1 || !(await contents.isEmpty(trx, { orgId: actor.orgId, folderIds: ids })))) {
          throw appError('folder_not_empty', { detail: 'Empty the folder first, or delete it with cascade=true.' });
        }
        await requireMayRemoveContents(trx, actor, folder, ids);
        await contents.discard(trx, actor, ids);
        await repository.remove(ids);
      });
    },
  };
}

function requireUserFolder({ kind }: FolderView): void {
  if (kind === 'system') throw appError('system_folder');
}

function requireLevels(levels: number): void {
  if (levels <= MAX_LEVELS) return;
  throw appError('folder_too_deep', {
    detail: `A folder tree may have at most ${MAX_LEVELS} levels, including the root folder.`,
  });
}

const nameTaken = () => appError('name_taken', { detail: 'Another folder in the same parent has this name.' });
