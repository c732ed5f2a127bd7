import type { Knex } from 'knex';

/** What is imported by connections: runs, what they list, what became of each file, and when the next sync is due. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create table import_runs (
      id uuid primary key,
      org_id uuid not null references organizations (id),
      connection_id uuid not null,
      kind text not null check (kind in ('import', 'sync')),
      job_id text not null,
      status text not null default 'queued'
        check (status in ('queued', 'running', 'parked', 'succeeded', 'failed', 'cancelled')),
      error_code text,
      error_message text,
      -- Where documents go; null: into the personal root of whoever has made the connection.
      target_folder_id uuid,
      -- Of syncs: the folder at the provider, and what is done about what is not there any more.
      folder text not null default '',
      deletes_missing boolean not null default false,
      accepts_deletions boolean not null default false,
      mode text check (mode in ('full', 'delta')),
      -- Where the changes after this run begin.
      cursor text,
      is_listed boolean not null default false,
      total integer not null default 0,
      added integer not null default 0,
      updated integer not null default 0,
      unchanged integer not null default 0,
      deleted integer not null default 0,
      failed integer not null default 0,
      created_at timestamptz not null default now(),
      finished_at timestamptz,
      unique (org_id, id),
      foreign key (org_id, connection_id) references connections (org_id, id) on delete cascade
    );
    create index import_runs_connection_idx on import_runs (org_id, connection_id, kind, created_at desc, id desc);
    create index import_runs_job_idx on import_runs (job_id);
    create index import_runs_finished_idx on import_runs (finished_at);

    -- What a run has yet to look at: what was asked for, and the folders found below.
    create table import_places (
      id uuid primary key,
      org_id uuid not null,
      run_id uuid not null,
      -- Of the item of the request that it belongs to.
      item integer not null,
      kind text not null check (kind in ('wish', 'folder', 'changes')),
      remote_id text,
      path text,
      name text,
      folder text,
      -- The path whose folders and files go straight into the target.
      base text not null,
      -- Of a folder its next page, of changes where they go on.
      next_page text,
      done_at timestamptz,
      error_code text,
      error_message text,
      foreign key (org_id, run_id) references import_runs (org_id, id) on delete cascade
    );
    create index import_places_run_idx on import_places (org_id, run_id, id);
    create unique index import_places_folder_key on import_places (run_id, remote_id) where kind = 'folder';

    create table import_files (
      org_id uuid not null,
      run_id uuid not null,
      n integer not null,
      item integer not null,
      remote_id text not null,
      remote jsonb not null,
      local_path text[] not null,
      status text not null check (status in ('pending', 'added', 'updated', 'unchanged', 'failed')),
      error_code text,
      error_message text,
      document_id uuid,
      primary key (run_id, n),
      unique (run_id, remote_id),
      foreign key (org_id, run_id) references import_runs (org_id, id) on delete cascade
    );
    create index import_files_run_idx on import_files (org_id, run_id);
    create index import_files_pending_idx on import_files (run_id, n) where status = 'pending';

    -- What a provider says is gone, by its id or by its path: acted upon once all else is known.
    create table import_gone (
      org_id uuid not null,
      run_id uuid not null,
      remote_id text,
      path text,
      check (num_nonnulls(remote_id, path) = 1),
      foreign key (org_id, run_id) references import_runs (org_id, id) on delete cascade
    );
    create index import_gone_run_idx on import_gone (org_id, run_id);

    -- Which document a file at a provider has become, and what was known of the file then.
    create table connector_documents (
      org_id uuid not null,
      connection_id uuid not null,
      remote_id text not null,
      -- Null: nobody has it any more.
      document_id uuid,
      revision text not null,
      content_sha256 text not null,
      name text not null,
      path text not null,
      target_folder_id uuid,
      local_path text[] not null,
      folder_id uuid not null,
      -- The sync that has found it last; null: it was imported, and no sync is about it.
      seen_run_id uuid,
      -- It was deleted at the provider, and here by a sync: restored, it comes again.
      gone_at timestamptz,
      primary key (connection_id, remote_id),
      foreign key (org_id, connection_id) references connections (org_id, id) on delete cascade,
      foreign key (org_id, document_id) references documents (org_id, id) on delete set null (document_id)
    );
    create index connector_documents_connection_idx on connector_documents (org_id, connection_id);
    create index connector_documents_document_idx on connector_documents (org_id, document_id);

    create table connector_folders (
      org_id uuid not null,
      connection_id uuid not null,
      remote_id text not null,
      path text not null,
      primary key (connection_id, remote_id),
      foreign key (org_id, connection_id) references connections (org_id, id) on delete cascade
    );
    create index connector_folders_connection_idx on connector_folders (org_id, connection_id);

    -- Where the next sync goes on, as long as it is about the same folder.
    create table connector_cursors (
      connection_id uuid primary key,
      org_id uuid not null,
      folder text not null,
      cursor text,
      reconciled_at timestamptz not null,
      foreign key (org_id, connection_id) references connections (org_id, id) on delete cascade
    );
    create index connector_cursors_connection_idx on connector_cursors (org_id, connection_id);

    -- Outlives its connection until the engine knows that there is nothing to be done any more.
    create table connection_schedules (
      connection_id uuid primary key,
      org_id uuid not null,
      outdated_at timestamptz
    );
    create index connection_schedules_outdated_idx on connection_schedules (outdated_at) where outdated_at is not null;

    create function outdate_connection_schedule() returns trigger language plpgsql as $$
    begin
      insert into connection_schedules (connection_id, org_id, outdated_at)
      values (coalesce(new.id, old.id), coalesce(new.org_id, old.org_id), clock_timestamp())
      on conflict (connection_id) do update set outdated_at = excluded.outdated_at;
      return null;
    end $$;
    create trigger connections_scheduled after insert or delete on connections for each row
      execute function outdate_connection_schedule();
    create trigger connections_rescheduled after update on connections for each row
      when (new.config is distinct from old.config or new.status is distinct from old.status)
      execute function outdate_connection_schedule();

    -- How a run stands is how its job stands, in whatever way that was closed.
    create function show_import() returns trigger language plpgsql as $$
    begin
      update import_runs r
      set status = new.status, error_code = new.error_code, error_message = new.error_message,
          finished_at = new.finished_at
      where r.id = (new.start -> 'input' ->> 'runId')::uuid and r.job_id = new.id;
      return null;
    end $$;
    create trigger jobs_import_shown after update on jobs for each row
      when (new.kind in ('import', 'sync')
        and (new.status, new.error_code) is distinct from (old.status, old.error_code))
      execute function show_import();

    alter table jobs
      drop constraint jobs_kind_check,
      add constraint jobs_kind_check check (kind in (
        'ingest', 'alignment', 'delete', 'reembed', 'erase', 'anchors', 'evaluate', 'compare', 'preview', 'import', 'sync'
      ));
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw(`
    delete from jobs where kind in ('import', 'sync');
    alter table jobs
      drop constraint jobs_kind_check,
      add constraint jobs_kind_check
        check (kind in (
          'ingest', 'alignment', 'delete', 'reembed', 'erase', 'anchors', 'evaluate', 'compare', 'preview'
        ));
    drop trigger jobs_import_shown on jobs;
    drop function show_import();
    drop trigger connections_rescheduled on connections;
    drop trigger connections_scheduled on connections;
    drop function outdate_connection_schedule();
    drop table connection_schedules, connector_cursors, connector_folders, connector_documents, import_gone,
      import_files, import_places, import_runs;
  `);
}
