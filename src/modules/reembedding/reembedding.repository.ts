import type { IngestibleDocument } from '#src/modules/ingestion/generations.service.ts';
import type { Db } from '#src/ports/database.ts';

/** A document whose vectors, or those of its next ingestion, are of another model. */
export type OutdatedDocument = IngestibleDocument & { createdBy: string };

export function createReembeddingRepository(db: Db) {
  const outdated = ({ orgId, model }: { orgId: string; model: string }) =>
    db('documents')
      .where({ orgId })
      .whereNull('deletedAt')
      .whereRaw(
        `(rag_config #>> '{embedding,model}' <> :model
          or (active_generation is not null and active_embedding_model is distinct from :model))`,
        { model },
      );

  return {
    async organizationExists(id: string): Promise<boolean> {
      return (await db('organizations').where({ id }).whereNull('deletedAt').first('id')) !== undefined;
    },

    /** Longest in office first. */
    async listOrgAdminIds(orgId: string): Promise<string[]> {
      const admins = db('memberships').where({ orgId, isOrgAdmin: true }).orderBy(['addedAt', 'userId']);
      return (await admins.select<{ userId: string }[]>('userId')).map(({ userId }) => userId);
    },

    /** Those that were set to another model, or added with one, since they were looked at. */
    async countOfAnotherModel({ orgId, model }: { orgId: string; model: string }): Promise<number> {
      const [row] = await db('documents')
        .where({ orgId })
        .whereNull('deletedAt')
        .whereRaw(`rag_config #>> '{embedding,model}' <> ?`, [model])
        .count<{ count: number }[]>();
      return row?.count ?? 0;
    },

    async countOutdated(of: { orgId: string; model: string }): Promise<number> {
      const [row] = await outdated(of).count<{ count: number }[]>();
      return row?.count ?? 0;
    },

    /** In the order of their ids. */
    async listOutdatedIds(
      of: { orgId: string; model: string },
      page: { after: string | null; limit: number },
    ): Promise<string[]> {
      const query = outdated(of).orderBy('id').limit(page.limit);
      if (page.after !== null) query.where('id', '>', page.after);
      return query.pluck('id');
    },

    /** Held until the end of the transaction; undefined when it needs nothing any more. */
    async lockOutdated(of: { orgId: string; model: string }, id: string): Promise<OutdatedDocument | undefined> {
      return outdated(of).where({ id }).forNoKeyUpdate().first<OutdatedDocument | undefined>();
    },
  };
}
