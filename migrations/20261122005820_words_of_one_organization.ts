import type { Knex } from 'knex';

/** The words of before are not those of these rules: 20261122005830 makes them anew. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(String.raw`
    lock table chats, rounds in exclusive mode;

    -- A text as name_key has a name, of any length.
    create function text_key(content text) returns text language sql immutable strict parallel safe
    return btrim(regexp_replace(
      regexp_replace(
        normalize(
          regexp_replace(casefold(normalize(content, NFKD) collate pg_unicode_fast), '[\u0300-\u036f]', '', 'g'),
          NFC
        ),
        '([\u3040-\u30ff\u3400-\u9fff])', ' \1 ', 'g'
      ),
      '[^[:alnum:]]+', ' ', 'g'
    ));

    create or replace function text_words(content text) returns text[] language sql immutable strict parallel safe
    return array(
      select distinct left(word, 100) from string_to_table(text_key(content), ' ') as word where word <> ''
    );

    -- Each word begins with a mark of its organization, so that those of others are not looked at. To look for the
    -- organization as one more word took an index of a million texts ten milliseconds.
    create or replace function logged_words(org uuid, content text) returns tsvector
    language sql immutable strict parallel safe
    return array_to_tsvector(array(select left(md5(org::text), 6) || word from unnest(text_words(content)) as word));

    -- The last word may be the beginning of one, if it is not very short: of each other one all texts that have its
    -- beginning would be read.
    create or replace function wanted_words(org uuid, content text) returns tsquery
    language sql immutable strict parallel safe
    return (
      select string_agg(
        '''' || left(md5(org::text), 6) || left(word, 100) || '''' ||
          case when place = last and length(word) > 2 then ':*' else '' end,
        ' & ')::tsquery
      from (
        select word, place, max(place) over () as last
        from string_to_table(text_key(content), ' ') with ordinality as w (word, place)
        where word <> ''
      ) w
      having count(*) > 0
    );

    truncate log_texts;
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw(String.raw`
    lock table chats, rounds in exclusive mode;
    create or replace function text_words(content text) returns text[] language sql immutable strict parallel safe
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

    create or replace function logged_words(org uuid, content text) returns tsvector language sql immutable strict parallel safe
    return array_to_tsvector(text_words(content) || ('@' || org::text));

    create or replace function wanted_words(org uuid, content text) returns tsquery language sql immutable strict parallel safe
    return (
      select ('''@' || org::text || ''' & ' ||
        string_agg('''' || word || '''' || case when length(word) > 2 then ':*' else '' end, ' & '))::tsquery
      from unnest(text_words(content)) as word
      having count(*) > 0
    );

    drop function text_key;
    truncate log_texts;
  `);
}
