import type { Stack } from './stack.ts';

/** What is to stay for good. */
const kept = ['audit_log'];
/** Of nobody, or asked for below: every other table says by a column whose its rows are. */
const ofNobody = [
  'embedding_models',
  'knex_migrations',
  'knex_migrations_lock',
  'model_pauses',
  'organizations',
  'rate_limits',
  // Of who is not known yet; its rows live for minutes.
  'sign_in_states',
  // Goes with its family.
  'refresh_tokens',
  'users',
];

const userIdsOf = ({ container }: Stack, orgId: string): Promise<string[]> =>
  container.db('memberships').where({ orgId }).pluck('user_id');

/** The places where something of an organization is left; asked with its members while it has some. */
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
    if (kept.includes(name) || ofNobody.includes(name)) continue;
    if (!hasOrganization && !hasUser) throw new Error(`whose are the rows of ${name}? Erasures have to know.`);
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

/** What is left of an organization, beside its members of before. */
export async function membersAndRemains(stack: Stack, orgId: string) {
  const userIds = await userIdsOf(stack, orgId);
  return { userIds, remains: await remainsOfOrganization(stack, orgId, userIds) };
}
