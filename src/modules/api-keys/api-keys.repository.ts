import type { Knex } from 'knex';
import { orderNewestFirst, toListPage } from '#src/adapters/postgres/keyset.ts';
import { queryFirstRow, queryRows, type SqlRow } from '#src/adapters/postgres/shapes.ts';
import type { ListPosition } from '#src/contracts/request-data.ts';
import { type ApiKey, ApiKeyModel, apiKeyRowShape, listedApiKeyRowShape } from './api-keys.model.ts';

type ApiKeyRow = SqlRow<typeof ApiKeyModel>;
type Secret = Pick<ApiKeyRow, 'secretId' | 'secretHash' | 'hint'>;

export function createApiKeysRepository(db: Knex) {
  const keys = (orgId: string) =>
    ApiKeyModel.query(db)
      .alias('k')
      .join('users as u', 'u.id', 'k.userId')
      .join('users as creator', 'creator.id', 'k.createdBy')
      .where('k.orgId', orgId)
      .whereNull('u.deletedAt')
      .select('u.id', 'u.displayName as name', 'k.scopes', 'k.hint', 'k.expiresAt', 'k.lastUsedAt')
      .select('k.createdBy', 'creator.displayName as createdByName', 'k.createdAt')
      .select(
        db.raw(
          `array(select t.id from team_memberships tm join teams t on t.id = tm.team_id
           where tm.user_id = u.id and t.disabled_at is null order by tm.added_at, t.id) as team_ids`,
        ),
      );

  return {
    async list(
      orgId: string,
      page: { limit: number; after: ListPosition | null },
    ): Promise<{ items: ApiKey[]; last: ListPosition | null }> {
      const listed = orderNewestFirst(keys(orgId).toKnexQuery(), { time: 'k.created_at', id: 'u.id', ...page });
      return toListPage(await queryRows(db, listedApiKeyRowShape, listed), page.limit);
    },

    find: (orgId: string, id: string): Promise<ApiKey | undefined> =>
      queryFirstRow(db, apiKeyRowShape, keys(orgId).where('u.id', id)),

    count: (orgId: string): Promise<number> => ApiKeyModel.query(db).where({ orgId }).resultSize(),

    async insert(key: Omit<ApiKeyRow, 'lastUsedAt' | 'createdAt'>): Promise<void> {
      await ApiKeyModel.query(db).insert(key);
    },

    async replaceSecret(orgId: string, userId: string, secret: Secret & { expiresAt: Date | null }): Promise<boolean> {
      return (await ApiKeyModel.query(db).where({ orgId, userId }).patch(secret)) > 0;
    },
  };
}
