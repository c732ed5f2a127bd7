import { isOneLine } from '../text/plain-text.ts';

const maxNameLength = 255;

/** Makes a document name from a file name: one line of at most 255 characters. */
export function nameFromFile(fileName: string): string {
  const name = [...fileName].filter(isOneLine).join('').trim();
  return name.slice(0, maxNameLength).toWellFormed().trim() || 'Untitled';
}

/** Maximum depth of folders; files below are put into the deepest one. */
const maxLevels = 24;

/** @returns the names of the folders between `base` and a file: `a/b/c/plan.txt` below `a` → `b`, `c` */
export function foldersBelow(base: string, path: string): string[] {
  const names = path.split('/').slice(0, -1);
  const depth = base === '' ? 0 : base.split('/').length;
  return names.slice(depth, depth + maxLevels).map(nameFromFile);
}

/** `a/b` → `a`. The root is its own parent. */
export function parentPath(path: string): string {
  return path.split('/').slice(0, -1).join('/');
}

/** RFC 6266: an ASCII name for old clients and the real one for all others. */
export function attachment(fileName: string): string {
  const plain = fileName.replaceAll(/[^\x20-\x7e]|["\\%]/g, '_');
  const encoded = encodeURIComponent(fileName).replaceAll(/['()*]/g, (c) => `%${c.charCodeAt(0).toString(16)}`);
  return `attachment; filename="${plain}"; filename*=UTF-8''${encoded}`;
}

const blobKeyPattern = /^([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\/[\w-]+$/;

/** Blob key of an original. Documents of an organization with the same content share it. `sha256` is lower-case hex. */
export function originalKey(orgId: string, sha256: string): string {
  return `${orgId}/${sha256}`;
}

/** @returns the organization of a blob key; null if the key is not one of this service. Older keys end with a UUID. */
export function organizationOf(blobKey: string): string | null {
  return blobKeyPattern.exec(blobKey)?.[1] ?? null;
}
