import { z } from 'zod';
import { appError } from '#src/errors.ts';

const folderCursor = z.strictObject({
  position: z.string(),
  folderId: z.string(),
  path: z.string(),
  /** Where a drive that several share has changes of its own. */
  driveId: z.string().optional(),
});

/** A provider's position in all changes of a drive, and the folder whose changes are wanted. */
export type FolderCursor = z.infer<typeof folderCursor>;

export function writeCursor(cursor: FolderCursor): string {
  return JSON.stringify(cursor);
}

/** Throws `cursor_expired` for what this version did not write. */
export function readCursor(text: string): FolderCursor {
  try {
    return folderCursor.parse(JSON.parse(text));
  } catch {
    throw appError('cursor_expired');
  }
}
