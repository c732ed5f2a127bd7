import type { Stack } from './stack.ts';

/** Their rows are the users' and not the organization's. */
const tablesOfUsers = ['memberships', 'refresh_token_families', 'idempotency_keys', 'user_identities'];
/** What is to stay for good. */
const kept = ['audit_log'];

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
  const { rows: tables } = await db.raw<{ rows: { name: string }[] }>(
    `select table_name as name from information_schema.columns
     where table_schema = current_schema() and column_name = 'org_id' order by table_name`,
  );
  for (const { name } of tables) {
    if (!kept.includes(name)) note(name, (await db(name).where({ orgId }).first(db.raw('1'))) !== undefined);
  }
  const ids = [...userIds];
  note('users', (await db('users').whereIn('id', ids).first('id')) !== undefined);
  for (const table of tablesOfUsers) {
    note(table, (await db(table).whereIn('userId', ids).first(db.raw('1'))) !== undefined);
  }
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
