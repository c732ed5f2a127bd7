import type { Db } from '#src/ports/database.ts';
import type { PublishedGeneration } from '#src/ports/vector-store.ts';

/** Of the locks of a transaction: the documents that are being published. */
const LOCK_SPACE = 7_352;

export function createPublicationsRepository(db: Db) {
  return {
    async listOutdated(limit: number): Promise<string[]> {
      return db('documents').whereNotNull('pointsOutdatedAt').orderBy('pointsOutdatedAt').limit(limit).pluck('id');
    },

    /**
     * What the store has to be told of the document, which nobody else tells it until the end of the transaction;
     * undefined when there is nothing to tell, or when somebody is about to.
     */
    async holdOutdated(id: string): Promise<(PublishedGeneration & { outdatedAt: string }) | undefined> {
      const { rows } = await db.raw<{ rows: [{ isHeld: boolean }] }>(
        'select pg_try_advisory_xact_lock(?, hashtext(?)) as is_held',
        [LOCK_SPACE, id],
      );
      if (!rows[0].isHeld) return undefined;
      return db('documents')
        .where({ id })
        .whereNotNull('pointsOutdatedAt')
        .whereNotNull('activeGeneration')
        .first({
          orgId: 'orgId',
          documentId: 'id',
          generation: 'activeGeneration',
          model: 'activeEmbeddingModel',
          acl: 'acl',
          retrievalSettings: 'retrievalSettings',
          // As text: a Date would round the microseconds away.
          outdatedAt: db.raw('points_outdated_at::text'),
        });
    },

    /** A change that came after the one that was published stays to be told. */
    async clear(id: string, outdatedAt: string): Promise<void> {
      await db('documents')
        .where({ id })
        .whereRaw('points_outdated_at = ?::timestamptz', [outdatedAt])
        .update({ pointsOutdatedAt: null });
    },
  };
}
