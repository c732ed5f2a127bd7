import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    alter table jobs
      drop constraint jobs_kind_check,
      add constraint jobs_kind_check check (kind in ('ingest', 'alignment', 'delete', 'reembed', 'erase', 'anchors'));
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw(`
    delete from jobs where kind = 'anchors';
    alter table jobs
      drop constraint jobs_kind_check,
      add constraint jobs_kind_check check (kind in ('ingest', 'alignment', 'delete', 'reembed', 'erase'));
  `);
}
