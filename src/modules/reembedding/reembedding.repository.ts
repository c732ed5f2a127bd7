import type { Knex } from 'knex';
import { bigint, oneRow, shape } from '#src/adapters/postgres/shapes.ts';
import { MembershipModel } from '#src/modules/auth/auth.model.ts';
import { DocumentModel } from '#src/modules/documents/documents.model.ts';
import { OrganizationModel } from '#src/modules/organization/organization.model.ts';

const counted = shape({ count: bigint() });

export function createReembeddingRepository(db: Knex) {
  /** Documents whose vectors, or those of their next ingestion, are of another model. */
  const outdated = ({ orgId, model }: { orgId: string; model: string }) =>
    DocumentModel.table(db)
      .where({ orgId })
      .whereNull('deletedAt')
      .whereRaw(
        `(rag_config #>> '{embedding,model}' <> :model
          or (active_generation is not null and active_embedding_model is distinct from :model))`,
        { model },
      );

  return {
    async organizationExists(id: string): Promise<boolean> {
      return (await OrganizationModel.table(db).where({ id }).whereNull('deletedAt').first('id')) !== undefined;
    },

    /** Longest in office first. */
    async listOrgAdminIds(orgId: string): Promise<string[]> {
      const admins = MembershipModel.table(db).where({ orgId, isOrgAdmin: true }).orderBy(['addedAt', 'userId']);
      return (await admins.select('userId')).map(({ userId }) => userId);
    },

    /** Those that were set to another model, or added with one, since they were looked at. */
    async countOfAnotherModel({ orgId, model }: { orgId: string; model: string }): Promise<number> {
      const ofAnotherModel = DocumentModel.table(db)
        .where({ orgId })
        .whereNull('deletedAt')
        .whereRaw(`rag_config #>> '{embedding,model}' <> ?`, [model]);
      return (await oneRow(db, counted, ofAnotherModel.count())).count;
    },

    async countOutdated(of: { orgId: string; model: string }): Promise<number> {
      return (await oneRow(db, counted, outdated(of).count())).count;
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
    async lockOutdated(of: { orgId: string; model: string }, id: string) {
      return outdated(of).where({ id }).forNoKeyUpdate().first();
    },
  };
}
