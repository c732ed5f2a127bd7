import type { Knex } from 'knex';
import { numeric } from '#src/adapters/postgres/columns.ts';
import { readableBy } from '#src/adapters/postgres/readable.ts';
import { oneRow, shape } from '#src/adapters/postgres/shapes.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import {
  DocumentTotalModel,
  type DocumentUsage,
  documentUsage,
  FolderLinkModel,
  type StoredBytes,
  storedBytes,
} from './documents.model.ts';

const readableTotal = shape({ total: numeric() });

/** Numbers of live documents, which triggers keep: nothing here is counted one by one but the links of one folder. */
export function createDocumentTotalsRepository(db: Knex) {
  return {
    /** Of those that the caller may read, or that he may read and has made. */
    async readable(actor: Actor, createdBy?: string): Promise<number> {
      const query = readableBy(DocumentTotalModel.table(db), actor, 'documentTotals');
      if (createdBy !== undefined) query.where({ createdBy });
      return (await oneRow(db, readableTotal, query.select(db.raw('coalesce(sum(documents), 0) as total')))).total;
    },

    /** Of a folder that the caller may read, and so all that is in it. */
    async inFolder({ orgId }: Pick<Actor, 'orgId'>, folderId: string): Promise<number> {
      return FolderLinkModel.query(db).where({ orgId, folderId }).whereNotNull('listedAt').resultSize();
    },

    /** What the organization holds, for its limits. */
    async usage(orgId: string): Promise<DocumentUsage> {
      const totals = DocumentTotalModel.table(db)
        .where({ orgId })
        .select(
          db.raw('coalesce(sum(documents), 0)::bigint as documents'),
          db.raw('coalesce(sum(size_bytes), 0)::bigint as storage_bytes'),
        );
      return oneRow(db, documentUsage, totals);
    },

    /** What the organization's documents take, and what those take that are deleted and still in the store. */
    async stored(orgId: string): Promise<StoredBytes> {
      return oneRow(
        db,
        storedBytes,
        `select
           (select coalesce(sum(size_bytes), 0)::bigint from document_totals where org_id = :orgId) as used_bytes,
           (
             select coalesce(sum(size_bytes), 0)::bigint from documents where org_id = :orgId and deleted_at is not null
           ) as deleted_bytes`,
        { orgId },
      );
    },
  };
}
