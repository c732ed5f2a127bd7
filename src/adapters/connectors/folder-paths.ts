import { z } from 'zod';
import { appError } from '#src/errors.ts';
import type { RemoteFileQuery } from '#src/ports/connectors.ts';

const folderCursor = z.strictObject({
  position: z.string(),
  folderId: z.string(),
  path: z.string(),
  /** `driveId` is set for Google's shared drives, which have their own change lists. */
  driveId: z.string().optional(),
});

export type FolderListingCursor = z.infer<typeof folderCursor>;

export function encodeFolderListingCursor(cursor: FolderListingCursor): string {
  return JSON.stringify(cursor);
}

/** Throws `cursor_expired` for a cursor that another version of this service wrote. */
export function decodeFolderListingCursor(text: string): FolderListingCursor {
  try {
    return folderCursor.parse(JSON.parse(text));
  } catch {
    throw appError('cursor_expired');
  }
}

type Folder = { name: string; parentId: string | null };

/** Maximum depth of folders: more than any provider allows, so a deeper path is a cycle. */
const maxDepth = 200;

/**
 * Creates a function that finds the path of a folder through its parents, and caches each folder. The function returns
 * null for a folder outside of `within`.
 * @param within a folder with a known path; null for the whole drive
 * @param read returns null for a missing folder
 */
export function createFolderPathResolver(
  within: { folderId: string; path: string } | null,
  read: (folderId: string) => Promise<Folder | null>,
): (folderId: string | null) => Promise<string | null> {
  const known = new Map<string, string | null>(within === null ? [] : [[within.folderId, within.path]]);

  async function pathOf(folderId: string | null, depth = 0): Promise<string | null> {
    if (folderId === null || depth > maxDepth) return null;
    const path = known.get(folderId);
    if (path !== undefined) return path;
    const folder = await read(folderId);
    const found = folder === null ? null : await pathBelowParent(folder, depth);
    known.set(folderId, found);
    return found;
  }

  async function pathBelowParent({ name, parentId }: Folder, depth: number): Promise<string | null> {
    if (parentId === null) return within === null ? '' : null;
    const above = await pathOf(parentId, depth + 1);
    return above === null ? null : childFilePath(above, name);
  }

  return (folderId) => pathOf(folderId);
}

export function childFilePath(folder: string, name: string): string {
  const safe = name.replaceAll('/', '_');
  return folder === '' ? safe : `${folder}/${safe}`;
}

export function splitRemotePath(path: string): string[] {
  return path.split('/').filter(Boolean);
}

export function remotePathSegmentsOfQuery({ path, name, folder = '' }: RemoteFileQuery): string[] {
  if (path !== undefined) return splitRemotePath(path);
  return name === undefined ? [] : [...splitRemotePath(folder), name];
}
