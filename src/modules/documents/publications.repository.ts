import type { Knex } from 'knex';
import { firstRow } from '#src/adapters/postgres/shapes.ts';
import { DocumentModel, type Publication, publication } from './documents.model.ts';

/** Longer than the store may take to answer: a call of before must not arrive after one that came later. */
const LEASE_SECONDS = 15;

export function createPublicationsRepository(db: Knex) {
  return {
    /** Documents that nobody tells the store about at the moment, those first that wait longest. */
    async listOutdated(limit: number): Promise<string[]> {
      return DocumentModel.table(db)
        .whereNotNull('pointsOutdatedAt')
        .whereNotNull('activeGeneration')
        .whereRaw('coalesce(points_leased_until < clock_timestamp(), true)')
        .orderBy('pointsOutdatedAt')
        .limit(limit)
        .pluck('id');
    },

    /** Undefined when there is nothing to tell, or when somebody is about to. */
    async lease(id: string): Promise<Publication | undefined> {
      return firstRow(
        db,
        publication,
        `update documents set points_leased_until = clock_timestamp() + make_interval(secs => :seconds)
         where id = :id and points_outdated_at is not null and active_generation is not null
           and coalesce(points_leased_until < clock_timestamp(), true)
         returning org_id, id as document_id, active_generation as generation, active_embedding_model as model, acl,
                   retrieval_settings,
                   -- As text: a Date would round the microseconds away.
                   points_outdated_at::text as outdated_at, points_leased_until::text as leased_until`,
        { id, seconds: LEASE_SECONDS },
      );
    },

    /** A change that came after the one that was told stays to be told. */
    async settle({ documentId, outdatedAt, leasedUntil }: Publication): Promise<void> {
      await db.raw(
        `update documents set
           points_outdated_at = nullif(points_outdated_at, :outdatedAt::timestamptz),
           points_leased_until = null
         where id = :documentId and points_leased_until = :leasedUntil::timestamptz`,
        { documentId, outdatedAt, leasedUntil },
      );
    },
  };
}
