import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- What an original looks like on paper: once for all documents of an organization that have it, and gone with it.
    create table previews (
      org_id uuid not null references organizations (id),
      original_key text not null,
      renderer_version text not null,
      blob_key text not null,
      sha256 text not null,
      size_bytes bigint not null,
      created_at timestamptz not null default now(),
      primary key (org_id, original_key)
    );
    create index previews_blob_key_idx on previews (org_id, blob_key);

    -- Others may have added a kind meanwhile: theirs stay.
    do $$
    declare kinds text[];
    begin
      select array(select match[1] from regexp_matches(pg_get_constraintdef(oid), '''(\\w+)''', 'g') match) || 'preview'::text
        into kinds
        from pg_constraint where conname = 'jobs_kind_check';
      alter table jobs drop constraint jobs_kind_check;
      execute format('alter table jobs add constraint jobs_kind_check check (kind = any (%L::text[]))', kinds);
    end $$;

    -- What a scanner has found in the original: { sha256, signature }, which says nothing of another one.
    alter table documents add column malware jsonb;
  `);
}

/** Leaves the stored PDFs, which the next audit of the stores finds. */
export async function down(knex: Knex): Promise<void> {
  await knex.raw(`
    alter table documents drop column malware;
    delete from jobs where kind = 'preview';
    alter table jobs
      drop constraint jobs_kind_check,
      add constraint jobs_kind_check
        check (kind in ('ingest', 'alignment', 'delete', 'reembed', 'erase', 'anchors', 'evaluate', 'compare'));
    drop table previews;
  `);
}
