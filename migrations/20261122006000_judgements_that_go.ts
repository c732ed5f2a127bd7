import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- Of two that go at the same time, each would see the run of the other still asking for what they share. Whoever
    -- locks it second looks when the first has gone.
    create or replace function forget_unused_judgements() returns trigger language plpgsql as $$
    begin
      perform from judgements
      where (org_id, cache_key) in (select org_id, cache_key from gone)
      order by org_id, cache_key for update;
      perform from generated_answers
      where (org_id, cache_key) in (select org_id, cache_key from gone)
      order by org_id, cache_key for update;
      delete from judgements j using gone
      where j.org_id = gone.org_id and j.cache_key = gone.cache_key
        and not exists (select from evaluation_units u where u.org_id = j.org_id and u.cache_key = j.cache_key);
      delete from generated_answers a using gone
      where a.org_id = gone.org_id and a.cache_key = gone.cache_key
        and not exists (select from evaluation_units u where u.org_id = a.org_id and u.cache_key = a.cache_key);
      return null;
    end $$;
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw(`
    create or replace function forget_unused_judgements() returns trigger language plpgsql as $$
    begin
      delete from judgements j using gone
      where j.org_id = gone.org_id and j.cache_key = gone.cache_key
        and not exists (select from evaluation_units u where u.org_id = j.org_id and u.cache_key = j.cache_key);
      delete from generated_answers a using gone
      where a.org_id = gone.org_id and a.cache_key = gone.cache_key
        and not exists (select from evaluation_units u where u.org_id = a.org_id and u.cache_key = a.cache_key);
      return null;
    end $$;
  `);
}
