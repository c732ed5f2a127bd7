import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- Calls of a model that are under way, of all processes together; one whose process has died ends by itself.
    create table model_calls (
      id uuid primary key,
      org_id uuid not null references organizations (id),
      model text not null,
      expires_at timestamptz not null
    );
    create index model_calls_model_idx on model_calls (model, org_id);
    create index model_calls_org_idx on model_calls (org_id);

    -- A model whose service has asked for a pause: nobody calls it before, and afterwards as many at once as it has
    -- shown to bear.
    create table model_pauses (
      model text primary key,
      not_before timestamptz not null,
      width integer not null
    );
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw('drop table model_pauses, model_calls');
}
