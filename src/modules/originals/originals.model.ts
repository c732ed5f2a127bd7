import type { Knex } from 'knex';
import { tableModel } from '#src/adapters/postgres/base-model.ts';
import {
  booleanColumn,
  defineRowShape,
  queryOneRow,
  type SqlRow,
  textColumn,
  timestampColumn,
  uuidColumn,
} from '#src/adapters/postgres/shapes.ts';
import { PreviewModel } from '#src/modules/previews/previews.model.ts';

/** A claim keeps an uploaded blob from deletion until a row refers to the blob, or the claim expires. */
export class BlobClaimModel extends tableModel('blob_claims', {
  id: uuidColumn(),
  orgId: uuidColumn(),
  blobKey: textColumn(),
  expiresAt: timestampColumn(),
}) {}

const blobNeed = defineRowShape({ isNeeded: booleanColumn() });

export type OriginalFileKey = Pick<SqlRow<typeof BlobClaimModel>, 'orgId' | 'blobKey'>;

export function createOriginalFilesRepository(db: Knex) {
  return {
    /** Locks an original until the end of the transaction. Other transactions that claim or delete the original wait. */
    async lock(blobKey: string): Promise<void> {
      await db.raw('select pg_advisory_xact_lock(hashtextextended(:blobKey, 0))', { blobKey });
    },

    async insertClaim(claim: OriginalFileKey & { id: string; seconds: number }): Promise<void> {
      await db.raw(
        `insert into blob_claims (id, org_id, blob_key, expires_at)
         values (:id, :orgId, :blobKey, clock_timestamp() + make_interval(secs => :seconds))`,
        claim,
      );
    },

    /** Deletes a claim. Returns false if the claim had expired and the sweeper has deleted it before. */
    async deleteClaim(id: string): Promise<boolean> {
      return (await BlobClaimModel.query(db).deleteById(id)) > 0;
    },

    async expireClaim(id: string): Promise<OriginalFileKey | undefined> {
      const [claimed] = await BlobClaimModel.table(db)
        .where({ id })
        .update({ expiresAt: db.raw('clock_timestamp()') })
        .returning(['orgId', 'blobKey']);
      return claimed;
    },

    async deleteExpired({ orgId, blobKey }: OriginalFileKey): Promise<void> {
      await BlobClaimModel.query(db).where({ orgId, blobKey }).whereRaw('expires_at <= clock_timestamp()').delete();
    },

    async listExpired(limit: number): Promise<OriginalFileKey[]> {
      return BlobClaimModel.table(db)
        .whereRaw('expires_at <= clock_timestamp()')
        .groupBy('orgId', 'blobKey')
        .orderByRaw('min(expires_at)')
        .limit(limit)
        .select('orgId', 'blobKey');
    },

    async deletePreviews({ orgId, blobKey }: OriginalFileKey): Promise<string[]> {
      const deleted = await PreviewModel.table(db).where({ orgId, originalKey: blobKey }).delete().returning('blobKey');
      return deleted.map((preview) => preview.blobKey);
    },

    /**
     * Returns whether a blob is still needed: it is claimed, or is the original of a document or of an unconverted
     * generation, a preview, or a volume of an export. One statement, because two could miss a claim that becomes a
     * document in between.
     */
    async isNeeded({ orgId, blobKey }: OriginalFileKey): Promise<boolean> {
      const { isNeeded } = await queryOneRow(
        db,
        blobNeed,
        `select exists (select from blob_claims where org_id = :orgId and blob_key = :blobKey)
             or exists (
               select from documents where org_id = :orgId and blob_key = :blobKey and deleted_at is null
             )
             or exists (select from previews where org_id = :orgId and blob_key = :blobKey)
             or exists (select from export_volumes where org_id = :orgId and blob_key = :blobKey)
             or exists (
               select from document_generations g
               join documents d on d.id = g.document_id and d.generation = g.generation and d.deleted_at is null
               where g.org_id = :orgId and g.blob_key = :blobKey and g.conversion_id is null
             ) as is_needed`,
        { orgId, blobKey },
      );
      return isNeeded;
    },
  };
}
