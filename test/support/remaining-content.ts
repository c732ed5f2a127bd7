import type { Stack } from './stack.ts';

/** Tables that an erasure keeps, that have no personal data, or whose rows go with those of another table. */
const unchecked = [
  ...['audit_log', 'embedding_models', 'knex_migrations', 'knex_migrations_lock', 'model_pauses', 'rate_limits'],
  // Rows expire within minutes, and the user is not known yet.
  'sign_in_states',
  // Deleted with `refresh_token_families`.
  'refresh_tokens',
];

/** Returns the stores that still have data of the organization or its members, whose ids are read before the erasure. */
export async function remainsOfOrganization(
  { container: { db, vectors, blobs } }: Stack,
  orgId: string,
  userIds: readonly string[],
): Promise<string[]> {
  const columns: { table: string; names: string[] }[] = await db('information_schema.columns as c')
    .join('information_schema.tables as t', { 'c.table_schema': 't.table_schema', 'c.table_name': 't.table_name' })
    .where({ 't.table_type': 'BASE TABLE' })
    .whereRaw('t.table_schema = current_schema()')
    .groupBy('t.table_name')
    .orderBy('t.table_name')
    .select({ table: 't.table_name', names: db.raw('array_agg(c.column_name::text)') });
  const isThere = async (table: string, column: string, values: readonly string[]) =>
    (await db(table).whereIn(column, values).first(db.raw('1'))) !== undefined;
  const remains: string[] = [];
  for (const { table, names } of columns.filter(({ table }) => !unchecked.includes(table))) {
    if (table === 'organizations') continue;
    const userColumn = table === 'users' ? 'id' : 'user_id';
    const [hasOrganization, hasUser] = ['org_id', userColumn].map((name) => names.includes(name));
    if (!hasOrganization && !hasUser)
      throw new Error(`table ${table} has neither org_id nor user_id: erase its rows, and list it here`);
    const isLeft =
      (hasOrganization && (await isThere(table, 'org_id', [orgId]))) ||
      (hasUser && (await isThere(table, userColumn, userIds)));
    if (isLeft) remains.push(table);
  }
  if ((await db('organizations').where({ id: orgId }).first()).name !== '') remains.push('name');
  const { generations } = await vectors.listGenerations({ after: null, limit: 1_000 });
  if (generations.some((of) => of.orgId === orgId)) remains.push('vectors');
  const stored = await blobs.list({ after: null, limit: 1_000 });
  if (stored.some(({ key }) => key.startsWith(`${orgId}/`))) remains.push('blobs');
  return remains;
}

/** Also returns the ids of the present members. */
export async function membersAndRemains(stack: Stack, orgId: string) {
  const userIds: string[] = await stack.container.db('memberships').where({ orgId }).pluck('user_id');
  return { userIds, remains: await remainsOfOrganization(stack, orgId, userIds) };
}
