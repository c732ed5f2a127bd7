import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import { makeOnce } from '#src/domain/access/idempotency.ts';
import type { RequestActor } from '#src/domain/access/visibility.ts';
import type { FolderChangesService, FoldersService } from '#src/modules/folders/folders.service.ts';

export type FolderPaths = ReturnType<typeof createFolderPaths>;

/** Folders that are named by the way to them. */
export function createFolderPaths(deps: {
  db: Knex;
  folders: Pick<FoldersService, 'requireTarget' | 'findChild'>;
  folderChanges: Pick<FolderChangesService, 'create'>;
}) {
  const { db, folders, folderChanges } = deps;

  async function child(actor: RequestActor, parentId: string, name: string): Promise<{ id: string }> {
    const find = () => folders.findChild(actor, parentId, name);
    // Another file of the same folder may be faster.
    return (await find()) ?? makeOnce(() => folderChanges.create(actor, uuidv7(), { name, parentId }), find);
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
