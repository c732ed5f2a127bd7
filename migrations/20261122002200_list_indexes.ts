import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- Each begins with what the index in whose place it comes is for, and goes on in the order of a list.
    create index folder_links_listed_idx on folder_links (org_id, folder_id, listed_at desc, document_id desc);
    drop index folder_links_folder_idx;
    create index documents_own_idx on documents (created_by, updated_at desc, id desc);
    drop index documents_created_by_idx;

    -- For who may read few of many jobs, and for the few that are not well.
    create index jobs_acl_idx on jobs using gin (acl);
    create index jobs_status_idx on jobs (org_id, status, created_at desc, id desc) where status <> 'succeeded';
    create index jobs_error_idx on jobs (org_id, error_code, created_at desc, id desc) where error_code is not null;
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw(`
    create index folder_links_folder_idx on folder_links (org_id, folder_id);
    create index documents_created_by_idx on documents (created_by);
    drop index folder_links_listed_idx, documents_own_idx, jobs_acl_idx, jobs_status_idx, jobs_error_idx;
  `);
}
