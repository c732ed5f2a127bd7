import type { Stack } from './stack.ts';

/** Tables that an erasure keeps. */
const kept = ['audit_log'];
/** Tables without `org_id` and `user_id`: they have no personal data, or are checked separately. */
const withoutOwner = [
  'embedding_models',
  'knex_migrations',
  'knex_migrations_lock',
  'model_pauses',
  'organizations',
  'rate_limits',
  // Rows expire within minutes, and the user is not known yet.
  'sign_in_states',
  // Deleted with `refresh_token_families`.
  'refresh_tokens',
  'users',
];

const userIdsOf = ({ container }: Stack, orgId: string): Promise<string[]> =>
  container.db('memberships').where({ orgId }).pluck('user_id');

/** Returns the stores that still have data of the organization or its members, whose ids are read before the erasure. */
export async function remainsOfOrganization(
  stack: Stack,
  orgId: string,
  userIds: readonly string[],
): Promise<string[]> {
  const { db, vectors, blobs } = stack.container;
  const remains: string[] = [];
  const note = (place: string, isThere: boolean) => {
    if (isThere) remains.push(place);
  };
  const { rows: tables } = await db.raw<{ rows: { name: string; hasOrganization: boolean; hasUser: boolean }[] }>(
    `select t.table_name as name,
            bool_or(c.column_name = 'org_id') as "hasOrganization", bool_or(c.column_name = 'user_id') as "hasUser"
     from information_schema.tables t join information_schema.columns c using (table_schema, table_name)
     where t.table_schema = current_schema() and t.table_type = 'BASE TABLE'
     group by t.table_name order by t.table_name`,
  );
  const ids = [...userIds];
  for (const { name, hasOrganization, hasUser } of tables) {
    if (kept.includes(name) || withoutOwner.includes(name)) continue;
    if (!hasOrganization && !hasUser)
      throw new Error(`table ${name} has neither org_id nor user_id: erase its rows, and list it here`);
    const isThere = async (column: string, values: string[]) =>
      (await db(name).whereIn(column, values).first(db.raw('1'))) !== undefined;
    note(name, (hasOrganization && (await isThere('orgId', [orgId]))) || (hasUser && (await isThere('userId', ids))));
  }
  note('users', (await db('users').whereIn('id', ids).first('id')) !== undefined);
  note('name', (await db('organizations').where({ id: orgId }).first()).name !== '');
  const { generations } = await vectors.listGenerations({ after: null, limit: 1_000 });
  note(
    'vectors',
    generations.some((of) => of.orgId === orgId),
  );
  const stored = await blobs.list({ after: null, limit: 1_000 });
  note(
    'blobs',
    stored.some(({ key }) => key.startsWith(`${orgId}/`)),
  );
  return remains;
}

/** Also returns the ids of the present members. */
export async function membersAndRemains(stack: Stack, orgId: string) {
  const userIds = await userIdsOf(stack, orgId);
  return { userIds, remains: await remainsOfOrganization(stack, orgId, userIds) };
}
