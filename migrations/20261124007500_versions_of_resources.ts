import type { Knex } from 'knex';

/** Columns in every statement that changes the resource, of a request or of a sync, and in none of the work that follows it. */
const edited = {
  agents: ['updated_at'],
  // Not updated_at: an ingestion that ends sets it.
  documents: ['name', 'acl', 'rag_config', 'generation'],
  // Every change of a draft's versions sets it.
  drafts: ['updated_at'],
  folders: ['updated_at'],
  users: ['updated_at'],
  connections: ['display_name', 'config', 'account_id'],
};

/**
 * Versions of the resources that `If-Match` may name. A statement that writes an edited column increments the version,
 * also when the value stays the same.
 */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create function increment_version() returns trigger language plpgsql as $$
    begin
      new.version := old.version + 1;
      return new;
    end $$;
  `);
  for (const table of [...Object.keys(edited), 'chats']) {
    await knex.raw('alter table ?? add column version integer not null default 1', [table]);
  }
  for (const [table, columns] of Object.entries(edited)) {
    await knex.raw(
      `create trigger ${table}_edited before update of ${columns.join(', ')} on ${table}
       for each row execute function increment_version()`,
    );
  }
  await knex.raw(`
    -- A message or a new title by the user; not a title that the model proposes.
    create trigger chats_edited before update of title, round_count on chats for each row
      when (new.title_source = 'user' or new.round_count <> old.round_count) execute function increment_version();
  `);
}

export async function down(knex: Knex): Promise<void> {
  for (const table of [...Object.keys(edited), 'chats']) {
    await knex.raw(`drop trigger ${table}_edited on ${table}`);
    await knex.raw('alter table ?? drop column version', [table]);
  }
  await knex.raw('drop function increment_version()');
}
