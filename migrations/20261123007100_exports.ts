import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- Copies of an organization that somebody has asked for: each with what he may read, in volumes.
    create table exports (
      id uuid primary key,
      org_id uuid not null references organizations (id),
      created_by uuid not null references users (id),
      created_at timestamptz not null default now(),
      completed_at timestamptz,
      expires_at timestamptz not null,
      unique (org_id, id)
    );
    create index exports_list_idx on exports (org_id, created_at desc, id desc);
    create index exports_created_by_idx on exports (created_by);
    create index exports_expires_at_idx on exports (expires_at);

    -- A volume is made once. The next one goes on behind its place; the last one has none.
    create table export_volumes (
      org_id uuid not null,
      export_id uuid not null,
      number integer not null,
      blob_key text not null,
      size_bytes bigint not null,
      sha256 text not null,
      records jsonb not null,
      next_place jsonb,
      created_at timestamptz not null default now(),
      primary key (export_id, number),
      foreign key (org_id, export_id) references exports (org_id, id) on delete cascade
    );
    create index export_volumes_export_idx on export_volumes (org_id, export_id);
    create index export_volumes_blob_key_idx on export_volumes (blob_key);

    -- Others may have added a kind meanwhile: theirs stay.
    do $$
    declare kinds text[];
    begin
      select array(select match[1] from regexp_matches(pg_get_constraintdef(oid), '''(\\w+)''', 'g') match) || 'export'::text
        into kinds
        from pg_constraint where conname = 'jobs_kind_check';
      alter table jobs drop constraint jobs_kind_check;
      execute format('alter table jobs add constraint jobs_kind_check check (kind = any (%L::text[]))', kinds);
    end $$;
  `);
}

/** Leaves the stored volumes, which the next audit of the stores finds. */
export async function down(knex: Knex): Promise<void> {
  await knex.raw(`
    delete from jobs where kind = 'export';
    do $$
    declare kinds text[];
    begin
      select array_remove(
          array(select match[1] from regexp_matches(pg_get_constraintdef(oid), '''(\\w+)''', 'g') match), 'export')
        into kinds
        from pg_constraint where conname = 'jobs_kind_check';
      alter table jobs drop constraint jobs_kind_check;
      execute format('alter table jobs add constraint jobs_kind_check check (kind = any (%L::text[]))', kinds);
    end $$;
    drop table export_volumes;
    drop table exports;
  `);
}
