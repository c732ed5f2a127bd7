import type { RemoteFileQuery } from '#src/ports/connectors.ts';

/** A folder as its provider tells it; `parentId` is null at the root. */
type Folder = { name: string; parentId: string | null };

/** Deeper than any provider lets folders be; also the way out of a circle. */
const maxDepth = 200;

/**
 * Finds the paths of folders by their parents, each of which is asked for once: `pathOf(folderId)` is null for what is
 * not `within` the folder there, whose path is known.
 * @param within null for all that there is
 * @param read null for a folder that is not there
 */
export function createFolderPaths(
  within: { folderId: string; path: string } | null,
  read: (folderId: string) => Promise<Folder | null>,
): (folderId: string | null) => Promise<string | null> {
  const known = new Map<string, string | null>(within === null ? [] : [[within.folderId, within.path]]);

  async function pathOf(folderId: string | null, depth = 0): Promise<string | null> {
    if (folderId === null || depth > maxDepth) return null;
    const path = known.get(folderId);
    if (path !== undefined) return path;
    const folder = await read(folderId);
    const found = folder === null ? null : await placeOf(folder, depth);
    known.set(folderId, found);
    return found;
  }

  async function placeOf({ name, parentId }: Folder, depth: number): Promise<string | null> {
    if (parentId === null) return within === null ? '' : null;
    const above = await pathOf(parentId, depth + 1);
    return above === null ? null : childPath(above, name);
  }

  return (folderId) => pathOf(folderId);
}

/** A name with a slash, which some providers allow, is still one name. */
export function childPath(folder: string, name: string): string {
  const safe = name.replaceAll('/', '_');
  return folder === '' ? safe : `${folder}/${safe}`;
}

/** The names of a path, whatever slashes stand around them. */
export function namesOf(path: string): string[] {
  return path.split('/').filter(Boolean);
}

/** Where a wanted thing lies that is not wanted by its id. */
export function wantedNames({ path, name, folder = '' }: RemoteFileQuery): string[] {
  if (path !== undefined) return namesOf(path);
  return name === undefined ? [] : [...namesOf(folder), name];
}
