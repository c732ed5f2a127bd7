import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- Documents with the same keys have the same hash, which an index can hold: document_totals knows the few that a
    -- reader's keys open. Hash partitions are built on this function, so it stays what it is. The two columns are never
    -- who decides about access: another document may have the same hash by chance.
    alter table documents
      add column acl_hash bigint not null generated always as (hash_array_extended(acl, 0)) stored;
    alter table document_totals
      add column acl_hash bigint not null generated always as (hash_array_extended(acl, 0)) stored;

    -- In the order of lists, for who reads many; and by keys, for who reads few, or to know which they are.
    drop index documents_list_idx;
    create index documents_list_idx on documents (org_id, updated_at desc, id desc) include (acl_hash);
    create index documents_opened_idx on documents (org_id, acl_hash, updated_at desc, id desc)
      include (active_generation);
    drop index documents_name_idx;
    create index documents_name_idx on documents (org_id, name_key) include (id, acl_hash);
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw(`
    drop index documents_list_idx, documents_opened_idx, documents_name_idx;
    create index documents_list_idx on documents (org_id, updated_at desc, id desc);
    create index documents_name_idx on documents (org_id, name_key);
    alter table documents drop column acl_hash;
    alter table document_totals drop column acl_hash;
  `);
}
