import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- Sums of what a provider says, which may be any number.
    alter table chats alter column input_tokens type bigint, alter column completion_tokens type bigint;
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw(`
    update chats set
      input_tokens = least(input_tokens, 2147483647), completion_tokens = least(completion_tokens, 2147483647);
    alter table chats alter column input_tokens type integer, alter column completion_tokens type integer;
  `);
}
