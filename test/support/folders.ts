import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import {
  type FolderDto,
  type FolderTreeNodeDto,
  folderSchema,
  folderTreeNodeSchema,
} from '#src/modules/folders/folders.schema.ts';
import type { Member } from './client.ts';

export const treesOf = async (member: Member): Promise<FolderTreeNodeDto[]> =>
  folderTreeNodeSchema.array().parse((await member.get('/folders', 200)).body);

/** For `team_root`, returns the root of the first team of the member. */
export async function rootOf(member: Member, role: 'org_root' | 'team_root' | 'personal_root'): Promise<string> {
  const root = (await treesOf(member)).find((folder) => folder.system_role === role);
  if (root === undefined) throw new Error(`no ${role}`);
  return root.id;
}

export async function makeFolder(
  member: Member,
  parentId: string,
  name: string = crypto.randomUUID(),
): Promise<FolderDto> {
  return folderSchema.parse((await member.post('/folders', { name, parent_id: parentId }, 201)).body);
}

/** Uploads a text file and does not ingest it. */
export async function uploadInto(member: Member, folderId: string, name = 'note.txt'): Promise<string> {
  const fields = { ingest: 'false', target_folder_id: folderId };
  const { body } = await member.upload('/documents', { name, content: `Some words of ${name}.` }, 201, { fields });
  return fullDocumentSchema.parse(body).id;
}
