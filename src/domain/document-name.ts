import { isOneLine } from './plain-text.ts';

const maxLength = 255;

/** File names come from anywhere: a name of ours is one line of at most 255 characters. */
export function nameFromFile(fileName: string): string {
  const name = [...fileName].filter(isOneLine).join('').trim();
  return name.slice(0, maxLength).toWellFormed().trim() || 'Untitled';
}

/** Trees of ours are not so deep as those of others may be: what lies below goes into the last folder. */
const maxLevels = 24;

/** `a/b/c/plan.txt` below `a` → `b`, `c`: the folders that a file goes into, as they are called here. */
export function foldersBelow(base: string, path: string): string[] {
  const names = path.split('/').slice(0, -1);
  const depth = base === '' ? 0 : base.split('/').length;
  return names.slice(depth, depth + maxLevels).map(nameFromFile);
}

/** `a/b` → `a`; the root is its own parent. */
export function parentPath(path: string): string {
  return path.split('/').slice(0, -1).join('/');
}
