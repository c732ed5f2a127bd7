import { z } from 'zod';
import { estimatedPageCount } from '#src/domain/documents/pages.ts';
import { maxRankedDocuments } from '#src/domain/retrieval/document-search.ts';
import { integerField, uuidField } from '#src/http/request/fields.ts';
import type { DocumentSearchHit } from './search.model.ts';

export const searchDocumentsQuery = z.strictObject({
  q: z
    .string()
    .max(200)
    .describe('Words in names and texts; put a phrase in quotes to require it. A blank query finds nothing.'),
  limit: integerField({ min: 1, max: 50 }).default(20),
  offset: integerField({ min: 0, max: 1_000_000 }).default(0),
});

const searchItemSchema = z
  .strictObject({
    id: uuidField,
    name: z.string(),
    folder_ids: z.array(uuidField).describe('Folders of the document that you may read.'),
    source_format: z.string().describe('As in the document.'),
    content_preview: z
      .string()
      .describe(
        'HTML: the matching passage with its matches in `<mark>` and everything else escaped; the beginning of the text if only the name matches; empty before the first ingestion.',
      ),
    char_count: z.int(),
    page_count: z.int(),
    rank: z
      .number()
      .describe(
        'Descending; comparable within one response. 5 and more: the name matches exactly. 2 to 4: the name matches by prefix or contains each word. Less: the text matches, or the name with a typo.',
      ),
    created_by: uuidField,
    created_at: z.iso.datetime(),
    updated_at: z.iso.datetime(),
  })
  .meta({ id: 'SearchItem' });

export const searchResultSchema = z
  .strictObject({
    items: z.array(searchItemSchema),
    total: z.int().describe(`Number of matches, at most ${maxRankedDocuments.toLocaleString('en')}.`),
    query: z.string(),
  })
  .meta({ id: 'SearchResult' });

export function toSearchResultDto(
  result: { items: DocumentSearchHit[]; total: number },
  query: string,
): z.infer<typeof searchResultSchema> {
  return { items: result.items.map(toSearchItemDto), total: result.total, query };
}

function toSearchItemDto(hit: DocumentSearchHit): z.infer<typeof searchItemSchema> {
  return {
    id: hit.id,
    name: hit.name,
    folder_ids: hit.folderIds,
    source_format: hit.sourceFormat ?? 'unknown',
    content_preview: hit.preview,
    char_count: hit.charCount,
    page_count: hit.pageCount ?? estimatedPageCount(hit.charCount),
    rank: hit.rank,
    created_by: hit.createdBy,
    created_at: hit.createdAt.toISOString(),
    updated_at: hit.updatedAt.toISOString(),
  };
}
