import type { RequestActor } from '#src/domain/visibility.ts';
import { AppError } from '#src/errors.ts';
import type { FolderChangesService } from '#src/modules/folders/folder-changes.service.ts';
import type { FoldersService } from '#src/modules/folders/folders.service.ts';
import type { Db } from '#src/ports/database.ts';

export type FolderPaths = ReturnType<typeof createFolderPaths>;

/** Folders that are named by the way to them. */
export function createFolderPaths(deps: {
  db: Db;
  folders: Pick<FoldersService, 'requireTarget' | 'findChild'>;
  folderChanges: Pick<FolderChangesService, 'create'>;
}) {
  const { db, folders, folderChanges } = deps;

  async function child(actor: RequestActor, parentId: string, name: string): Promise<{ id: string }> {
    const known = await folders.findChild(actor, parentId, name);
    if (known !== undefined) return known;
    try {
      return await folderChanges.create(actor, { name, parentId });
    } catch (error) {
      // Another file of the same folder was faster.
      const made =
        error instanceof AppError && error.code === 'name_taken'
          ? await folders.findChild(actor, parentId, name)
          : undefined;
      if (made === undefined) throw error;
      return made;
    }
  }

  return {
    /**
     * The folder at this path below the target, made where it is not there. Throws `folder_not_found`, `forbidden`,
     * `folder_limit_reached`, `folder_too_deep`.
     * @param targetId null: the caller's personal root
     */
    async ensure(actor: RequestActor, targetId: string | null, path: readonly string[]): Promise<{ id: string }> {
      let folder: { id: string } = await folders.requireTarget(db, actor, targetId ?? undefined);
      for (const name of path) folder = await child(actor, folder.id, name);
      return folder;
    },
  };
}
