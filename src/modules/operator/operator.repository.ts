import type { Knex } from 'knex';
import {
  bigintColumn,
  booleanColumn,
  defineRowShape,
  queryRows,
  type SqlRow,
  textArrayColumn,
  textColumn,
  timestampColumn,
  uuidColumn,
} from '#src/adapters/postgres/shapes.ts';

const listedOrganization = defineRowShape({
  orgId: uuidColumn(),
  name: textColumn(),
  tier: textColumn(),
  members: bigintColumn(),
  documents: bigintColumn(),
  admins: textArrayColumn(),
  createdAt: timestampColumn(),
  deletedAt: timestampColumn().nullable(),
});
export type ListedOrganization = SqlRow<typeof listedOrganization>;

const listedUser = defineRowShape({
  userId: uuidColumn(),
  email: textColumn(),
  displayName: textColumn(),
  orgId: uuidColumn(),
  orgName: textColumn(),
  isOrgAdmin: booleanColumn(),
  isDisabled: booleanColumn(),
  createdAt: timestampColumn(),
});
export type ListedUser = SqlRow<typeof listedUser>;

/** Lists over all organizations, for operators only. */
export function createOperatorRepository(db: Knex) {
  return {
    /** Newest first. Includes deleted organizations until they are erased. */
    async listOrganizations(limit: number): Promise<ListedOrganization[]> {
      return queryRows(
        db,
        listedOrganization,
        `select o.id as org_id, o.name, o.tier, o.created_at, o.deleted_at,
           (select count(*) from memberships m join users u on u.id = m.user_id and u.deleted_at is null and not u.is_api_key
            where m.org_id = o.id) as members,
           (select count(*) from documents d where d.org_id = o.id and d.deleted_at is null) as documents,
           array(select u.email from memberships m join users u on u.id = m.user_id and u.deleted_at is null and not u.is_api_key
                 where m.org_id = o.id and m.is_org_admin order by u.email limit 3) as admins
         from organizations o order by o.id desc limit :limit`,
        { limit },
      );
    },

    /** By organization, then email. Leaves out the users of API keys. */
    async listUsers({ orgId, limit }: { orgId: string | null; limit: number }): Promise<ListedUser[]> {
      return queryRows(
        db,
        listedUser,
        `select u.id as user_id, u.email, u.display_name, o.id as org_id, o.name as org_name, m.is_org_admin,
           u.disabled_at is not null as is_disabled, u.created_at
         from users u join memberships m on m.user_id = u.id join organizations o on o.id = m.org_id
         where u.deleted_at is null and not u.is_api_key and (:orgId::uuid is null or o.id = :orgId)
         order by o.name, o.id, u.email limit :limit`,
        { orgId, limit },
      );
    },
  };
}
