import type { Knex } from 'knex';

/**
 * An agent without a chat model of its own follows the deployment's default. Agents whose draft version is still there
 * and names no model had the default of their day copied; the choice of the others is unknown, and they keep their model.
 */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    alter table agents alter column chat_model drop not null;
    update agents a set chat_model = null
    from draft_versions v
    where v.org_id = a.org_id and v.id = a.source_version_id and v.chat_model is null;
  `);
}

/** The default model is no part of the database: such an agent gets the model of its newest answer. */
export async function down(knex: Knex): Promise<void> {
  await knex.raw(`
    update agents a set chat_model = coalesce(
      (select r.model from chats c join rounds r on r.chat_id = c.id and r.round = c.round_count
       where c.org_id = a.org_id and c.agent_id = a.id order by c.updated_at desc limit 1),
      'extractive-1')
    where chat_model is null;
    alter table agents alter column chat_model set not null;
  `);
}
