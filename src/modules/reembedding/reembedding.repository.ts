import type { Knex } from 'knex';
import { bigintColumn, defineRowShape, queryOneRow } from '#src/adapters/postgres/shapes.ts';
import { MembershipModel } from '#src/modules/auth/auth.model.ts';
import { DocumentModel } from '#src/modules/documents/documents.model.ts';
import { OrganizationModel } from '#src/modules/organization/organization.model.ts';

const counted = defineRowShape({ count: bigintColumn() });

export function createReembeddingRepository(db: Knex) {
  /** Selects documents whose vectors, or whose next ingestion, use another embedding model than `model`. */
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

    async listOrgAdminIds(orgId: string): Promise<string[]> {
      const admins = MembershipModel.table(db).where({ orgId, isOrgAdmin: true }).orderBy(['addedAt', 'userId']);
      return (await admins.select('userId')).map(({ userId }) => userId);
    },

    async countOfAnotherModel({ orgId, model }: { orgId: string; model: string }): Promise<number> {
      const ofAnotherModel = DocumentModel.table(db)
        .where({ orgId })
        .whereNull('deletedAt')
        .whereRaw(`rag_config #>> '{embedding,model}' <> ?`, [model]);
      return (await queryOneRow(db, counted, ofAnotherModel.count())).count;
    },

    async countOutdated(of: { orgId: string; model: string }): Promise<number> {
      return (await queryOneRow(db, counted, outdated(of).count())).count;
    },

    async listOutdatedIds(
      of: { orgId: string; model: string },
      page: { after: string | null; limit: number },
    ): Promise<string[]> {
      const query = outdated(of).orderBy('id').limit(page.limit);
      if (page.after !== null) query.where('id', '>', page.after);
      return query.pluck('id');
    },

    /** Locks a document until the end of the transaction. Returns undefined if it already uses the target model. */
    async lockOutdated(of: { orgId: string; model: string }, id: string) {
      return outdated(of).where({ id }).forNoKeyUpdate().first();
    },
  };
}
