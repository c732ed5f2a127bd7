import type { Knex } from 'knex';

/** What is said already comes in with 20261122005830. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(String.raw`
    -- The words of a text as they are looked for, by the rules of name_key, which cuts what is longer than a name.
    create function text_words(content text) returns text[] language sql immutable strict parallel safe
    return array(
      select distinct left(word, 100) from string_to_table(
        regexp_replace(
          regexp_replace(
            normalize(
              regexp_replace(casefold(normalize(content, NFKD) collate pg_unicode_fast), '[\u0300-\u036f]', '', 'g'),
              NFC
            ),
            '([\u3040-\u30ff\u3400-\u9fff])', ' \1 ', 'g'
          ),
          '[^[:alnum:]]+', ' ', 'g'
        ), ' ') as word
      where word <> ''
    );

    -- The words of an organization's texts carry its name, so that those of others are not looked at.
    create function logged_words(org uuid, content text) returns tsvector language sql immutable strict parallel safe
    return array_to_tsvector(text_words(content) || ('@' || org::text));

    -- Each of the words begins one of the text; shorter ones are one. Null where there are no words.
    create function wanted_words(org uuid, content text) returns tsquery language sql immutable strict parallel safe
    return (
      select ('''@' || org::text || ''' & ' ||
        string_agg('''' || word || '''' || case when length(word) > 2 then ':*' else '' end, ' & '))::tsquery
      from unnest(text_words(content)) as word
      having count(*) > 0
    );

    -- What is looked for in logs: in round 0 the title of a chat, else the beginnings of a message and its answer.
    create table log_texts (
      org_id uuid not null,
      chat_id uuid not null,
      round integer not null,
      words tsvector not null,
      primary key (chat_id, round),
      foreign key (org_id, chat_id) references chats (org_id, id) on delete cascade
    );
    create index log_texts_words_idx on log_texts using gin (words) with (fastupdate = off);

    create function round_text(message text, reply text) returns text language sql immutable parallel safe
    return left(message, 20000) || ' ' || coalesce(left(reply, 20000), '');

    create function log_title() returns trigger language plpgsql as $$
    begin
      insert into log_texts values (new.org_id, new.id, 0, logged_words(new.org_id, new.title))
      on conflict (chat_id, round) do update set words = excluded.words;
      return null;
    end $$;
    create trigger chats_named after insert or update of title on chats for each row execute function log_title();

    create function log_text() returns trigger language plpgsql as $$
    begin
      insert into log_texts
      values (new.org_id, new.chat_id, new.round,
              logged_words(new.org_id, round_text(new.user_content, new.assistant_reply)))
      on conflict (chat_id, round) do update set words = excluded.words;
      return null;
    end $$;
    create trigger rounds_worded after insert or update of user_content, assistant_reply on rounds
      for each row execute function log_text();
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw(`
    drop trigger chats_named on chats;
    drop trigger rounds_worded on rounds;
    drop function log_title, log_text;
    drop table log_texts;
    drop function wanted_words, logged_words, text_words, round_text;
  `);
}
