import type { Knex } from 'knex';
import { boolean, oneRow, type Row, shape } from '#src/adapters/postgres/shapes.ts';
import { PreviewModel } from '#src/modules/previews/previews.model.ts';
import { BlobClaimModel } from './originals.model.ts';

const need = shape({ isNeeded: boolean() });

/** An original of an organization. */
export type OriginalKey = Pick<Row<typeof BlobClaimModel>, 'orgId' | 'blobKey'>;

export function createOriginalsRepository(db: Knex) {
  return {
    /** Until the end of the transaction nobody else claims the original, or looks whether it is needed. */
    async lock(blobKey: string): Promise<void> {
      await db.raw('select pg_advisory_xact_lock(hashtextextended(:blobKey, 0))', { blobKey });
    },

    async insertClaim(claim: OriginalKey & { id: string; seconds: number }): Promise<void> {
      await db.raw(
        `insert into blob_claims (id, org_id, blob_key, expires_at)
         values (:id, :orgId, :blobKey, clock_timestamp() + make_interval(secs => :seconds))`,
        claim,
      );
    },

    /** False when it has expired and somebody has acted on that. */
    async deleteClaim(id: string): Promise<boolean> {
      return (await BlobClaimModel.query(db).deleteById(id)) > 0;
    },

    /** Undefined when it is settled. */
    async expireClaim(id: string): Promise<OriginalKey | undefined> {
      const [claimed] = await BlobClaimModel.table(db)
        .where({ id })
        .update({ expiresAt: db.raw('clock_timestamp()') })
        .returning(['orgId', 'blobKey']);
      return claimed;
    },

    async deleteExpired({ orgId, blobKey }: OriginalKey): Promise<void> {
      await BlobClaimModel.query(db).where({ orgId, blobKey }).whereRaw('expires_at <= clock_timestamp()').delete();
    },

    /** Keys whose claims have expired, those first that wait longest. */
    async listExpired(limit: number): Promise<OriginalKey[]> {
      return BlobClaimModel.table(db)
        .whereRaw('expires_at <= clock_timestamp()')
        .groupBy('orgId', 'blobKey')
        .orderByRaw('min(expires_at)')
        .limit(limit)
        .select('orgId', 'blobKey');
    },

    /** What an original looked like, which is let go of with it. @returns the keys of its PDF, if there was one */
    async deletePreviews({ orgId, blobKey }: OriginalKey): Promise<string[]> {
      const deleted = await PreviewModel.table(db).where({ orgId, originalKey: blobKey }).delete().returning('blobKey');
      return deleted.map((preview) => preview.blobKey);
    },

    /**
     * Is it the original of a document, or of a generation that has yet to be converted, or its preview, or a volume of an export, or will it
     * soon be? One statement: what a claim becomes is seen as the one or the other.
     */
    async isNeeded({ orgId, blobKey }: OriginalKey): Promise<boolean> {
      const { isNeeded } = await oneRow(
        db,
        need,
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
