import type { Knex } from 'knex';

/** A chat at a time is held while its words are made: chatting goes on, and searches find the older chats last. */
export const config = { transaction: false };

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- Makes the words of all texts anew, a transaction for each chat, the newest first.
    create or replace procedure renew_log_texts() language plpgsql as $$
    declare
      one record;
    begin
      for one in select id from chats order by id desc loop
        -- Whoever writes to a chat holds it: nobody changes its texts meanwhile.
        perform from chats where id = one.id for no key update;
        delete from log_texts t where t.chat_id = one.id and t.round > 0 and not exists (
          select from rounds r where r.chat_id = one.id and r.round = t.round and r.status <> 'open');
        insert into log_texts as t
        select org_id, id, 0, logged_words(org_id, title) from chats where id = one.id
        union all
        select org_id, chat_id, round, logged_words(org_id, round_text(user_content, assistant_reply))
        from rounds where chat_id = one.id and status <> 'open'
        on conflict (chat_id, round) do update set words = excluded.words where t.words <> excluded.words;
        commit;
      end loop;
    end $$;
  `);
  await knex.raw('call renew_log_texts()');
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw('drop procedure renew_log_texts()');
}
