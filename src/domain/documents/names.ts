import { isOneLine } from '../text/plain-text.ts';

const maxNameLength = 255;

export function documentNameFromFile(fileName: string): string {
  const name = [...fileName].filter(isOneLine).join('').trim();
  return name.slice(0, maxNameLength).toWellFormed().trim() || 'Untitled';
}

const maxImportedFolderDepth = 24;

/** @returns the names of the folders between `base` and a file: `a/b/c/plan.txt` below `a` → `b`, `c` */
export function folderNamesBelowBasePath(base: string, path: string): string[] {
  const names = path.split('/').slice(0, -1);
  const depth = base === '' ? 0 : base.split('/').length;
  return names.slice(depth, depth + maxImportedFolderDepth).map(documentNameFromFile);
}

export function parentFolderPath(path: string): string {
  return path.split('/').slice(0, -1).join('/');
}
