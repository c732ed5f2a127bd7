const REASONS: Record<string, string> = {
  EROFS: 'it is on a file system that is read-only',
  EACCES: 'this user may not write there',
  EPERM: 'this user may not write there',
  ENOTDIR: 'it, or a folder above it, is a file',
  EEXIST: 'it, or a folder above it, is a file',
  ENOSPC: 'the disk is full',
  EDQUOT: 'the disk quota of this user is used up',
};

export function explainWriteError(error: unknown): string | null {
  return error instanceof Error && 'code' in error ? (REASONS[String(error.code)] ?? null) : null;
}
