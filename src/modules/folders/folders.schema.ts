import { z } from 'zod';
import { mayPerformAction } from '#src/domain/access/policy.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import { isBlank, isOneLine } from '#src/domain/text/plain-text.ts';
import { booleanField, booleanTextField, namePattern, uuidField, visibilityField } from '#src/http/request/fields.ts';
import type { FolderNode, FolderView } from './folders.model.ts';

const folderName = z
  .string()
  .trim()
  .normalize('NFC')
  .min(1)
  .max(255)
  .refine(isOneLine, 'must be one line without control characters')
  .refine((name) => !isBlank(name), { error: 'must not be blank', params: { code: 'blank' } })
  .refine((name) => !/[/\\]/.test(name), 'must not contain / or \\')
  .refine((name) => name !== '.' && name !== '..', 'must not be . or ..')
  .meta({
    description:
      'Stored in Unicode normalization form NFC. Unique among the folders of the same parent, regardless of case.',
    pattern: namePattern,
    allOf: [{ pattern: '^[^/\\\\]*$' }],
    not: { enum: ['.', '..'] },
  });

export const createFolderBody = z.strictObject({ name: folderName, parent_id: uuidField });

export const changeFolderBody = z
  .strictObject({ name: folderName.optional(), parent_id: uuidField.optional().describe('The new parent folder.') })
  .refine(({ name, parent_id }) => name !== undefined || parent_id !== undefined, 'name or parent_id is needed')
  .meta({ minProperties: 1 });

export const folderTreeQuery = z.strictObject({
  include_documents: booleanTextField
    .default(true)
    .describe('False returns folders only; `GET /documents?folder_id=` pages through the documents of a folder.'),
});

export const deleteFolderQuery = z.strictObject({
  cascade: booleanField.default(false).describe('Also deletes the contents of the folder.'),
});

export const folderSchema = z
  .strictObject({
    id: uuidField,
    name: z.string(),
    kind: z.enum(['system', 'user']).meta({ id: 'FolderKind' }),
    system_role: z.enum(['org_root', 'team_root', 'personal_root']).meta({ id: 'FolderRole' }).nullable(),
    visibility: visibilityField,
    entity_missing: z.boolean().describe('True if the team or user that the root belongs to was disabled or deleted.'),
    can_write: z.boolean().describe('Whether you may add documents and folders to it.'),
    can_change: z.boolean().describe('Whether you may rename, move and delete it.'),
    created_at: z.iso.datetime(),
    updated_at: z.iso.datetime(),
  })
  .meta({ id: 'Folder' });

const documentNameSchema = z.strictObject({ id: uuidField, name: z.string() });

export type FolderDto = z.infer<typeof folderSchema>;
export type FolderTreeNodeDto = FolderDto & {
  folders: FolderTreeNodeDto[];
  documents: z.infer<typeof documentNameSchema>[];
};

export const folderTreeNodeSchema: z.ZodType<FolderTreeNodeDto, FolderTreeNodeDto> = z
  .strictObject({
    ...folderSchema.shape,
    folders: z.lazy(() => z.array(folderTreeNodeSchema)),
    documents: z.array(documentNameSchema),
  })
  .meta({ id: 'FolderTreeNode' });

export const folderChildrenSchema = z.strictObject({
  folders: z.array(folderSchema),
  documents: z.array(documentNameSchema),
});

export function toFolderDto(actor: Actor, folder: FolderView): FolderDto {
  return {
    id: folder.id,
    name: folder.name,
    kind: folder.kind,
    system_role: folder.systemRole,
    visibility: folder.visibility,
    entity_missing: folder.entityMissing,
    can_write: mayPerformAction(actor, 'folder:contribute', folder),
    can_change: folder.kind === 'user' && mayPerformAction(actor, 'folder:write', folder),
    created_at: folder.createdAt.toISOString(),
    updated_at: folder.updatedAt.toISOString(),
  };
}

export function toDocumentNameDto(document: { id: string; name: string }): { id: string; name: string } {
  return { id: document.id, name: document.name };
}

export function toFolderTreeDto(actor: Actor, node: FolderNode): FolderTreeNodeDto {
  return {
    ...toFolderDto(actor, node),
    folders: node.folders.map((child) => toFolderTreeDto(actor, child)),
    documents: node.documents.map(toDocumentNameDto),
  };
}
