import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- Of what is deleted: from then on what is left of it may be erased.
    alter table users add column erase_due_at timestamptz;
    alter table organizations add column erase_due_at timestamptz;
    update users set erase_due_at = deleted_at + interval '30 days' where deleted_at is not null;
    update organizations set erase_due_at = deleted_at + interval '30 days' where deleted_at is not null;
    alter table users add constraint users_erase_due_check check ((deleted_at is null) = (erase_due_at is null));
    alter table organizations
      add constraint organizations_erase_due_check check ((deleted_at is null) = (erase_due_at is null));
    create index users_erase_due_idx on users (erase_due_at) where erase_due_at is not null;

    alter table jobs
      drop constraint jobs_kind_check,
      add constraint jobs_kind_check check (kind in ('ingest', 'alignment', 'delete', 'reembed', 'erase'));
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw(`
    delete from jobs where kind = 'erase';
    alter table jobs
      drop constraint jobs_kind_check,
      add constraint jobs_kind_check check (kind in ('ingest', 'alignment', 'delete', 'reembed'));
    alter table users drop column erase_due_at;
    alter table organizations drop column erase_due_at;
  `);
}
