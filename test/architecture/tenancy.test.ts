import { expect } from 'chai';
import { type Stack, stack } from '#test/support/stack.ts';

/** Tables that belong to no organization, or are its name. */
const withoutTenant = [
  'organizations',
  'users',
  'refresh_token_families',
  'refresh_tokens',
  'user_identities',
  'sign_in_states',
  'idempotency_keys',
  'embedding_models',
  'rate_limits',
  'model_pauses',
  'knex_migrations',
  'knex_migrations_lock',
];

describe('the tables with data of organizations', () => {
  let api: Stack;
  before(async () => {
    api = await stack();
  });

  it('all have an org_id column', async () => {
    const { rows } = await api.container.db.raw<{ rows: { name: string }[] }>(`
      select c.relname as name from pg_class c
      where c.relnamespace = 'public'::regnamespace and c.relkind = 'r'
        and not exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'org_id')`);
    expect(rows.map(({ name }) => name)).to.have.members(withoutTenant);
  });

  it('include org_id in foreign keys, so that no row refers to another organization', async () => {
    const { rows } = await api.container.db.raw<{ rows: { name: string; definition: string }[] }>(
      `
      select k.conrelid::regclass::text as name, pg_get_constraintdef(k.oid) as definition
      from pg_constraint k
      where k.contype = 'f' and k.confrelid::regclass::text <> all (?::text[])
        and not exists (
          select from pg_attribute a where a.attrelid = k.conrelid and a.attnum = any (k.conkey) and a.attname = 'org_id')`,
      [withoutTenant],
    );
    expect(rows).deep.equal([]);
  });
});
