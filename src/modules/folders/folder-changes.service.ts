import type { Knex } from 'knex';
import { makeOnce } from '#src/domain/access/idempotency.ts';
import { can } from '#src/domain/access/policy.ts';
import type { RequestActor } from '#src/domain/access/visibility.ts';
import { appError, type ExpectedVersions, requireVersion } from '#src/errors.ts';
import type { FolderContentsService } from '#src/modules/documents/document-links.service.ts';
import { createFolderTreeRepository } from './folder-tree.repository.ts';
import type { FolderView } from './folders.model.ts';
import { createFoldersRepository } from './folders.repository.ts';
import type { FoldersService } from './folders.service.ts';

/** Counted from the root. Trees are drawn and sent as a whole, level in level. */
const MAX_LEVELS = 32;
/** Of an organization, beside its roots. */
const MAX_FOLDERS = 10_000;

/** What is undefined stays as it is. */
export type FolderChange = { name: string | undefined; parentId: string | undefined };

export type FolderChangesService = ReturnType<typeof createFolderChangesService>;

/**
 * Makes, renames, moves and deletes folders. Those of one organization are changed one after the other, so that no two
 * changes make a circle together. A folder has the visibility and the keys of its root.
 */
export function createFolderChangesService(deps: {
  db: Knex;
  folders: Pick<FoldersService, 'get' | 'requireTarget'>;
  contents: FolderContentsService;
}) {
  const { db, folders, contents } = deps;

  /**
   * A folder that the caller may change. What is locked is the organization's root, which every change of its trees takes
   * first.
   */
  async function lockWritable(trx: Knex, actor: RequestActor, folderId: string): Promise<FolderView> {
    await createFolderTreeRepository(trx).lockTrees(actor.orgId);
    const folder = await createFoldersRepository(trx).findReadable(actor, folderId);
    if (folder === undefined) throw appError('folder_not_found');
    if (!can(actor, 'folder:write', { ...folder, createdBy: folder.ownerId })) {
      throw appError('forbidden', { detail: 'You may not change this folder.' });
    }
    return folder;
  }

  /** The folder that another one may be moved into. */
  async function requirePlace(
    trx: Knex,
    actor: RequestActor,
    folder: FolderView,
    parentId: string,
  ): Promise<FolderView> {
    const trees = createFolderTreeRepository(trx);
    const parent = await folders.requireTarget(trx, actor, parentId);
    const { ids, height } = await trees.subtree(folder.id);
    if (ids.includes(parent.id)) {
      throw appError('folder_cycle', { detail: 'The place that you name is the folder itself, or below it.' });
    }
    requireLevels((await trees.level(parent.id)) + height);
    return parent;
  }

  /**
   * Gives a folder with all that is in it what it has of its root, which is another one from now on. To be called before
   * any other update of it: who puts something into a folder locks it `for key share`, which a plain update does not stop,
   * and may then be shown its keys of before. `for update`, taken first, does.
   */
  async function adopt(trx: Knex, folder: FolderView, parent: FolderView): Promise<void> {
    const trees = createFolderTreeRepository(trx);
    const { ids } = await trees.subtree(folder.id);
    await trees.lock(ids);
    await trees.adopt(ids, parent);
    await contents.share(trx, { orgId: folder.orgId, folderIds: ids });
  }

  return {
    /**
     * Throws `folder_not_found`, `forbidden`, `name_taken`, `folder_too_deep`, `folder_limit_reached`.
     * @param folder.name of those beside it no other has the same, whatever the case of its letters
     */
    async create(
      actor: RequestActor,
      id: string,
      { name, parentId }: { name: string; parentId: string },
    ): Promise<FolderView> {
      const insert = async (trx: Knex) => {
        const trees = createFolderTreeRepository(trx);
        await trees.lockTrees(actor.orgId);
        const parent = await folders.requireTarget(trx, actor, parentId);
        requireLevels((await trees.level(parent.id)) + 1);
        if ((await trees.count(actor.orgId)) >= MAX_FOLDERS) {
          throw appError('folder_limit_reached', { detail: `An organization may have ${MAX_FOLDERS}.` });
        }
        const { orgId, rootId, visibility, ownerId, teamId, acl } = parent;
        const ofRoot = { orgId, rootId, visibility, ownerId, teamId, acl };
        const own = { id, parentId: parent.id, name, kind: 'user', systemRole: null, createdBy: actor.userId } as const;
        if (!(await trees.insert({ ...ofRoot, ...own }))) throw nameTaken();
      };
      const make = async () => {
        await db.transaction(insert);
        return folders.get(actor, id);
      };
      return makeOnce(make, () => createFoldersRepository(db).findReadable(actor, id));
    },

    /**
     * Throws `folder_not_found`, `forbidden`, `system_folder`, `name_taken`, `folder_cycle`, `folder_too_deep`,
     * `folder_too_large`, `precondition_failed`.
     */
    async change(
      actor: RequestActor,
      folderId: string,
      { name, parentId }: FolderChange,
      expected: ExpectedVersions,
    ): Promise<FolderView> {
      await db.transaction(async (trx) => {
        const folder = await lockWritable(trx, actor, folderId);
        requireVersion(expected, folder);
        requireUserFolder(folder);
        const parent = parentId === undefined ? undefined : await requirePlace(trx, actor, folder, parentId);
        if (parent !== undefined && parent.rootId !== folder.rootId) await adopt(trx, folder, parent);
        const trees = createFolderTreeRepository(trx);
        if (!(await trees.update(folderId, { name: name ?? folder.name, parentId: parentId ?? folder.parentId }))) {
          throw nameTaken();
        }
      });
      return folders.get(actor, folderId);
    },

    /**
     * With `cascade` all that is below it goes, too, whoever has put it there. Throws `folder_not_found`, `forbidden`,
     * `system_folder`, `folder_not_empty`, `folder_too_large`.
     */
    async remove(actor: RequestActor, folderId: string, { cascade }: { cascade: boolean }): Promise<void> {
      await db.transaction(async (trx) => {
        const trees = createFolderTreeRepository(trx);
        requireUserFolder(await lockWritable(trx, actor, folderId));
        const { ids } = await trees.subtree(folderId);
        await trees.lock(ids);
        if (!cascade && (ids.length > 1 || !(await contents.isEmpty(trx, { orgId: actor.orgId, folderIds: ids })))) {
          throw appError('folder_not_empty', { detail: 'Empty it first, or delete what is in it by cascade=true.' });
        }
        await contents.discard(trx, actor, ids);
        await trees.remove(ids);
      });
    },
  };
}

function requireUserFolder({ kind }: FolderView): void {
  if (kind === 'system') throw appError('system_folder');
}

function requireLevels(levels: number): void {
  if (levels > MAX_LEVELS)
    throw appError('folder_too_deep', { detail: `At most ${MAX_LEVELS} levels, the root is the first.` });
}

const nameTaken = () => appError('name_taken', { detail: 'Another folder in the same place has this name.' });
