import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- What a judge has said of one unit of work, and what a version has answered to one case, once for each question:
    -- whoever asks it again within the organization finds the answer here.
    create table judgements (
      org_id uuid not null references organizations (id),
      cache_key bytea not null,
      model text not null,
      verdict jsonb not null,
      input_tokens integer not null,
      cached_input_tokens integer not null,
      completion_tokens integer not null,
      created_at timestamptz not null default now(),
      primary key (org_id, cache_key)
    );
    create table generated_answers (
      org_id uuid not null references organizations (id),
      cache_key bytea not null,
      model text not null,
      answer text not null,
      input_tokens integer not null,
      cached_input_tokens integer not null,
      completion_tokens integer not null,
      created_at timestamptz not null default now(),
      primary key (org_id, cache_key)
    );

    -- One for each specification; its id is that of its job. What it speaks about takes it along when it goes.
    create table evaluation_runs (
      id text primary key,
      org_id uuid not null references organizations (id),
      draft_id uuid,
      version_id uuid,
      baseline_version_id uuid,
      specification jsonb not null,
      estimated_calls integer not null,
      results jsonb,
      failed_units jsonb not null default '[]',
      acl text[] not null,
      created_by uuid not null references users (id),
      created_at timestamptz not null default now(),
      finished_at timestamptz,
      unique (org_id, id),
      foreign key (org_id, draft_id) references drafts (org_id, id) on delete cascade,
      foreign key (org_id, version_id) references draft_versions (org_id, id) on delete cascade,
      foreign key (org_id, baseline_version_id) references draft_versions (org_id, id) on delete cascade
    );
    create index evaluation_runs_draft_idx on evaluation_runs (org_id, draft_id);
    create index evaluation_runs_version_idx on evaluation_runs (org_id, version_id);
    create index evaluation_runs_baseline_idx on evaluation_runs (org_id, baseline_version_id);
    create index evaluation_runs_created_by_idx on evaluation_runs (created_by);
    -- Nothing else takes these along.
    create index evaluation_runs_adhoc_idx on evaluation_runs (created_at) where draft_id is null;

    create table evaluation_units (
      org_id uuid not null,
      run_id text not null,
      unit text not null,
      -- Of the judgement or the answer, once it is there.
      cache_key bytea,
      -- Of the model, in the present attempt.
      failures integer not null default 0,
      primary key (org_id, run_id, unit),
      foreign key (org_id, run_id) references evaluation_runs (org_id, id) on delete cascade
    );
    create index evaluation_units_key_idx on evaluation_units (org_id, cache_key);

    -- What no run has asked for any more goes with the last that did, by whatever way that goes.
    create function forget_unused_judgements() returns trigger language plpgsql as $$
    begin
      delete from judgements j using gone
      where j.org_id = gone.org_id and j.cache_key = gone.cache_key
        and not exists (select from evaluation_units u where u.org_id = j.org_id and u.cache_key = j.cache_key);
      delete from generated_answers a using gone
      where a.org_id = gone.org_id and a.cache_key = gone.cache_key
        and not exists (select from evaluation_units u where u.org_id = a.org_id and u.cache_key = a.cache_key);
      return null;
    end $$;
    create trigger evaluation_units_forgotten after delete on evaluation_units
      referencing old table as gone for each statement execute function forget_unused_judgements();

    alter table draft_versions add column eval_run_id text;
    alter table draft_versions add foreign key (org_id, eval_run_id) references evaluation_runs (org_id, id)
      on delete set null (eval_run_id);
    create index draft_versions_eval_run_idx on draft_versions (org_id, eval_run_id);

    -- How the evaluation of a version stands is how its job stands, in whatever way that was closed; what it came to it
    -- says itself.
    create function show_evaluation() returns trigger language plpgsql as $$
    begin
      update draft_versions v
      set eval_status = case new.status when 'cancelled' then 'canceled' when 'parked' then 'running' else new.status end
      where v.org_id = new.org_id and v.eval_run_id = new.id
        and (new.status in ('queued', 'running') or v.eval_status in ('queued', 'running'));
      return null;
    end $$;
    create trigger jobs_evaluation_shown after update on jobs for each row
      when (new.kind = 'evaluate' and new.status <> 'succeeded' and new.status is distinct from old.status)
      execute function show_evaluation();

    -- Cases that an organization has had evaluated on a day (UTC).
    create table evaluation_days (
      org_id uuid not null references organizations (id),
      day date not null,
      cases integer not null,
      primary key (org_id, day)
    );
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw(`
    drop trigger jobs_evaluation_shown on jobs;
    drop function show_evaluation();
    alter table draft_versions drop column eval_run_id;
    drop table evaluation_days, evaluation_units, evaluation_runs, generated_answers, judgements;
    drop function forget_unused_judgements();
  `);
}
