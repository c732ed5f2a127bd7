import { z } from 'zod';
import { idField } from '#src/http/request/fields.ts';
import type { DocumentLink } from './documents.model.ts';

export const linkDocumentBody = z.strictObject({
  folder_id: idField,
  promote: z.boolean().default(false).describe('The document leaves all other folders that you may write to.'),
});

export const documentLinksSchema = z
  .strictObject({
    document_id: idField,
    links: z
      .array(z.strictObject({ folder_id: idField, folder_name: z.string() }))
      .describe('The folders that you may read, the oldest link first.'),
  })
  .meta({ id: 'DocumentLinks' });

export function toDocumentLinksDto(
  documentId: string,
  links: readonly DocumentLink[],
): z.infer<typeof documentLinksSchema> {
  return {
    document_id: documentId,
    links: links.map(({ folderId, folderName }) => ({ folder_id: folderId, folder_name: folderName })),
  };
}
